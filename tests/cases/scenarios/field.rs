//! E08: which name `task_struct` has for its state is asked of BTF. Our own function, compiled as it stands in
//! `bpf/`, is relocated by libbpf against small BTF files and run: it returns what stands at the field's place.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libbpf_rs::libbpf_sys::API_HEADERS;
use libbpf_rs::{ObjectBuilder, ProgramInput};
use serde_json::Value;

/// Kernels by what their `task_struct` looks like, and where the state lies in it.
const KERNELS: [(&str, &str, u32); 4] = [
    ("4.18 with the new name backported", "unsigned int flags; void *stack; unsigned int __state;", 16),
    ("5.10", "unsigned long thread_info; volatile long state; void *stack;", 8),
    ("6.x", "unsigned long thread_info[3]; unsigned int __state; unsigned int saved_state;", 24),
    ("one more", "char padding[100]; long state;", 104),
];

/// Holds its own offset in each word, so that a read tells where it was.
const PROGRAM: &str = r#"
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
char LICENSE[] SEC("license") = "Dual BSD/GPL";
u32 words[64];
FUNCTION
SEC("raw_tp/sched_switch") int where(void *context)
{
	for (u32 at = 0; at < 64; at++)
		words[at] = at * 4;
	return task_raw_state((struct task_struct *)words);
}
"#;

pub(super) fn chosen_by_btf(_: &Value) -> Result<()> {
    // what libbpf says of a load that fails is hundreds of lines
    libbpf_rs::set_print(None);
    let folder = tempfile::tempdir()?;
    let at = folder.path();
    fs::create_dir(at.join("bpf"))?;
    for (name, text) in API_HEADERS {
        fs::write(at.join("bpf").join(name), text)?;
    }
    let source = PROGRAM.replace("FUNCTION", &own_function("task_raw_state")?);
    let program = compile(at, "program", &source)?;
    for (kernel, fields, expected) in KERNELS {
        let blob = compile(at, "blob", &format!("struct task_struct {{ {fields} }}; struct task_struct one;"))?;
        let got = place_of_state(&program, &blob).with_context(|| format!("a kernel such as {kernel}"))?;
        ensure!(got == expected, "{kernel}: expected the state at {expected}\ngot {got}");
    }
    Ok(())
}

/// A function's text from `bpf/`.
fn own_function(name: &str) -> Result<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    for entry in fs::read_dir(folder)? {
        let text = fs::read_to_string(entry?.path())?;
        let Some(at) = text.find(&format!("{name}(struct task_struct *p)\n{{")) else { continue };
        let begin = text[..at].rfind("\n\n").context("no begin")?;
        let end = at + text[at..].find("\n}\n").context("no end")? + 3;
        return Ok(text[begin..end].to_owned());
    }
    anyhow::bail!("bpf/ has no {name}(struct task_struct *p)")
}

fn compile(folder: &Path, name: &str, source: &str) -> Result<std::path::PathBuf> {
    let (file, object) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.o")));
    fs::write(&file, source)?;
    let clang = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let mut command = Command::new(clang);
    command.args(["-g", "-O2", "-target", "bpf", "-c", "-Wno-everything", "-I"]);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf")).arg("-I").arg(folder);
    let output = command.arg(&file).arg("-o").arg(&object).output()?;
    ensure!(output.status.success(), "clang: {}", String::from_utf8_lossy(&output.stderr));
    Ok(object)
}

fn place_of_state(program: &Path, btf: &Path) -> Result<u32> {
    let mut builder = ObjectBuilder::default();
    builder.btf_custom_path(btf)?;
    let object = builder.open_file(program)?.load()?;
    let program = object.progs_mut().next().context("no program")?;
    Ok(program.test_run(ProgramInput::default())?.return_value)
}
