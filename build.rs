//! Compiles `bpf/` into skeletons that the binary embeds. Nothing is rebuilt while `bpf/` is unchanged.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libbpf_cargo::SkeletonBuilder;

fn main() -> ExitCode {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    // examples/traced_service shows this symbol to readers of thread contexts; a packaged crate has no examples
    if Path::new("examples/traced_service/main.rs").exists() {
        println!("cargo:rustc-link-arg-examples=-Wl,--export-dynamic-symbol=otel_thread_ctx_v1");
    }
    match skeletons() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            for line in message.lines() {
                println!("cargo:error={line}");
            }
            ExitCode::FAILURE
        }
    }
}

fn skeletons() -> Result<(), String> {
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    if Command::new(&clang).arg("--version").output().is_err() {
        return Err(format!(
            "`{}` was not found; it compiles the BPF programs. Debian, Ubuntu: apt-get install clang. Or name one in $CLANG",
            clang.to_string_lossy()
        ));
    }
    let define = match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "-D__TARGET_ARCH_x86",
        Ok("aarch64") => "-D__TARGET_ARCH_arm64",
        other => return Err(format!("no BPF target is known for {other:?}; x86_64 and aarch64 are")),
    };
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    ["sched", "events"].into_iter().try_for_each(|name| {
        SkeletonBuilder::new()
            .source(format!("bpf/{name}.bpf.c"))
            .clang(&clang)
            .clang_args(["-Wall", "-Werror", "-Ibpf", define].map(OsStr::new))
            .build_and_generate(out.join(format!("{name}.skel.rs")))
            .map_err(|error| format!("{error:#}"))
    })
}
