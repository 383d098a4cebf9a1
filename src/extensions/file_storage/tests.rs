use std::time::Duration;

use super::record::{frame, unframe};
use super::*;
use crate::pipeline::StorageError;

fn open(folder: &std::path::Path) -> FolderStore {
    FolderStore::open(folder, true, Duration::from_millis(50)).unwrap()
}

#[test]
fn records_outlive_the_store_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let ids: Vec<_> = (0..12u8).map(|at| store.append(&[at; 100]).unwrap()).collect();
    store.remove(ids[0]).unwrap();
    store.remove(ids[0]).unwrap();
    drop(store);
    std::fs::write(folder.path().join("00000000000000000099.part"), "torn").unwrap();
    let store = open(folder.path());
    assert_eq!(store.ids().unwrap(), ids[1..]);
    assert_eq!(store.read(ids[11]).unwrap(), [11; 100]);
    assert!(!folder.path().join("00000000000000000099.part").exists());
    assert!(store.append(b"new").unwrap() > ids[11]);
}

#[test]
fn one_process_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let _held = open(folder.path());
    assert!(FolderStore::open(folder.path(), false, Duration::from_millis(40)).is_err());
}

#[test]
fn damage_costs_the_record_it_hits() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let ids: Vec<_> = (0..3).map(|_| store.append(b"content").unwrap()).collect();
    let path = folder.path().join(format!("{:020}.record", ids[1]));
    let whole = std::fs::read(&path).unwrap();
    for bit in 0..whole.len() * 8 {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, flipped).unwrap();
        assert!(matches!(store.read(ids[1]), Err(StorageError::Damaged(_))), "bit {bit}");
    }
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(matches!(store.read(ids[1]), Err(StorageError::Damaged(_))), "cut to {length}");
    }
    assert!(store.read(ids[0]).is_ok() && store.read(ids[2]).is_ok());
    assert_eq!(unframe(frame(b"").unwrap()), Ok(Vec::new()));
}

#[test]
fn names_are_safe_file_names() {
    assert_eq!(file_name("otlp_grpc/eu ../x"), "otlp_grpc~2Feu~20~2E~2E~2Fx");
}

#[tokio::test]
async fn what_is_queued_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    for (more, want) in [("", 0o750), (", directory_permissions: \"0700\"", 0o700)] {
        let directory = folder.path().join(format!("{want:o}"));
        let yaml = format!("{{directory: '{}', create_directory: true{more}}}", directory.display());
        let body = crate::config::Body::from_yaml("extensions::file_storage", &yaml).unwrap();
        let context =
            crate::pipeline::BuildContext::new("file_storage".into(), crate::telemetry::Telemetry::default(), "0");
        let extension = (FACTORY.build)(&body, &context).unwrap();
        extension.storage().unwrap().open("otlp_grpc_traces").unwrap();
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&directory), mode(&directory.join("otlp_grpc_traces"))), (want, 0o700));
    }
    let body = crate::config::Body::from_yaml("a", "{directory_permissions: \"0800\"}").unwrap();
    assert!(body.decode::<FileStorageSettings>().unwrap_err().to_string().contains("must be octal"));
}
