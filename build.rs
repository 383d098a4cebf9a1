//! Compiles `bpf/` into a skeleton that the binary embeds. Nothing is rebuilt while `bpf/` is unchanged.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    if Command::new(&clang).arg("--version").output().is_err() {
        println!(
            "cargo:error=`{}` was not found; it compiles the BPF programs. Debian, Ubuntu: apt-get install clang. Or name one in $CLANG",
            clang.to_string_lossy()
        );
        std::process::exit(1);
    }
    let arch = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86",
        Ok("aarch64") => "arm64",
        Ok(other) => {
            println!("cargo:error=no BPF target is known for {other}; x86_64 and aarch64 are");
            std::process::exit(1);
        }
        Err(_) => "x86",
    };
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("sched.skel.rs");
    let define = format!("-D__TARGET_ARCH_{arch}");
    let built = SkeletonBuilder::new()
        .source("bpf/sched.bpf.c")
        .clang(&clang)
        .clang_args(["-Wall", "-Werror", "-Ibpf", &define].map(OsStr::new))
        .build_and_generate(&out);
    if let Err(error) = built {
        for line in format!("{error:#}").lines() {
            println!("cargo:error={line}");
        }
        std::process::exit(1);
    }
}
