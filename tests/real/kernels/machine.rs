//! A kernel of Debian's, fetched and booted under emulation, with our program in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use super::table::Seen;
use crate::support::folder;

/// How long each verifies.
const SECONDS: &str = "2";
/// A kernel: Debian's suite and flavour, and what is added to its command line.
pub(super) struct Kernel {
    pub(super) suite: &'static str,
    pub(super) flavour: &'static str,
    pub(super) append: &'static str,
    /// The scheduler of `ext.bpf.c` decides there.
    pub(super) is_ext: bool,
}

pub(super) const fn kernel(suite: &'static str, flavour: &'static str, append: &'static str) -> Kernel {
    Kernel { suite, flavour, append, is_ext: false }
}

/// What goes into the machines, made once.
pub(super) struct Luggage {
    folder: TempDir,
}

impl Luggage {
    /// The program without debug information: that is most of it, and all goes into a file system in emulated memory.
    pub(super) fn pack() -> Result<Self> {
        let folder = folder()?;
        strip("strip", Path::new(env!("CARGO_BIN_EXE_schedscope")), &folder.path().join("schedscope"))?;
        if let Some(program) = std::env::var_os(crate::needs::ARM64).map(PathBuf::from).filter(|file| file.exists()) {
            fs::create_dir(folder.path().join("arm64"))?;
            strip("aarch64-linux-gnu-strip", &program, &folder.path().join("arm64/schedscope"))?;
            let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/kernels/chrt.c");
            let mut compiler = Command::new("aarch64-linux-gnu-gcc");
            run(compiler.args(["-static", "-O2", "-Wall", source, "-o"]).arg(folder.path().join("arm64/chrt")))?;
        }
        Ok(Self { folder })
    }

    fn files(&self, kernel: &Kernel) -> Result<Vec<PathBuf>> {
        if kernel.is_arm64() {
            return Ok(["schedscope", "chrt"].map(|file| self.folder.path().join("arm64").join(file)).into());
        }
        let mut files = vec![self.folder.path().join("schedscope"), "/usr/bin/chrt".into()];
        if kernel.is_ext {
            files.extend([self.scheduler()?, "/usr/sbin/bpftool".into()]);
        }
        Ok(files)
    }

    fn scheduler(&self) -> Result<PathBuf> {
        let object = self.folder.path().join("ext.bpf.o");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/kernels/ext.bpf.c");
        let mut clang = Command::new("clang");
        run(clang.args(["-g", "-O2", "-Wall", "-target", "bpf", "-c", source, "-o"]).arg(&object))?;
        Ok(object)
    }

    /// Boots a kernel and runs a command in it.
    pub(super) fn boot(&self, kernel: &Kernel, command: &str) -> Result<Output> {
        let mut boot = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/kernels/boot"));
        boot.args(["--timeout", "300", "--append", kernel.append]);
        for file in self.files(kernel)? {
            boot.arg("--file").arg(file);
        }
        let scheduler = "bpftool struct_ops register /bin/ext.bpf.o >/tmp/ext 2>&1 || cat /tmp/ext\n";
        let command = format!("{}{command}", if kernel.is_ext { scheduler } else { "" });
        Ok(boot.arg(kernel.path()?).arg(command).output()?)
    }

    pub(super) fn verify(&self, kernel: &Kernel) -> Result<Seen> {
        let output = self.boot(kernel, &format!("uname -rm; schedscope doctor --verify {SECONDS} --json"))?;
        let text = told(&output);
        let (Some(begin), Some(end)) = (text.find("\n{"), text.rfind('}')) else { bail!("no report: {text}") };
        let report = serde_json::from_str(&text[begin..=end]).with_context(|| text.clone())?;
        let release = text[..begin].trim().trim_end_matches(" x86_64").trim_end_matches(" aarch64");
        let ext = if kernel.is_ext { "under sched_ext" } else { "" };
        Ok(Seen {
            name: [release, kernel.append, ext].join(" ").split_whitespace().collect::<Vec<_>>().join(" "),
            report,
        })
    }
}

impl Kernel {
    pub(super) fn name(&self) -> String {
        let ext = if self.is_ext { "under sched_ext" } else { "" };
        [self.suite, self.flavour, self.append, ext].join(" ").trim_end().to_owned()
    }

    pub(super) fn is_arm64(&self) -> bool {
        self.flavour.ends_with("arm64")
    }

    fn path(&self) -> Result<PathBuf> {
        let get = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/kernels/get");
        let output = Command::new(get).args([self.suite, self.flavour]).stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "the kernel could not be fetched: {}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).trim().into())
    }
}

fn strip(with: &str, program: &Path, to: &Path) -> Result<()> {
    run(Command::new(with).arg("-o").arg(to).arg(program))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

pub(super) fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
