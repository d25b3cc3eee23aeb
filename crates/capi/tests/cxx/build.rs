//! Build: compilers, linked libraries, and the paths of an installed library.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The language of a source.
#[derive(Clone, Copy)]
pub(crate) enum Language {
    C,
    Cpp,
}

/// The library that a program is linked with.
pub(crate) enum Linked<'a> {
    /// The one that cargo has built beside this test.
    Built,
    /// An installed one, as pkg-config describes it.
    Package(&'a Installed, &'a str),
}

/// The folder of this crate.
pub(crate) fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The repository.
pub(crate) fn root() -> PathBuf {
    folder().join("../..")
}

/// The folder in which cargo has put the library, the same as that of this test.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().to_owned()
}

fn sanitizer() -> Option<String> {
    std::env::var("CELLAR_SANITIZE").ok()
}

/// Whether the programs are compiled for a sanitizer.
pub(crate) fn is_sanitized() -> bool {
    sanitizer().is_some()
}

/// Runs a command that must succeed; returns its output.
pub(crate) fn passes(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| {
        panic!("{command:?}: {error} (make tools installs what is needed)");
    });
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    let status = output.status;
    assert!(status.success(), "{command:?}: {status}\n{told}{errors}");
    told
}

/// A program in a temporary folder.
pub(crate) struct Program {
    place: TempDir,
    library: Option<PathBuf>,
}

impl Program {
    /// The command that runs it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(self.place.path().join("program"));
        if let Some(library) = &self.library {
            command.env("LD_LIBRARY_PATH", library);
        }
        let known = folder().join("cxx/tests/tsan.supp");
        let options = format!("halt_on_error=1 suppressions={}", known.display());
        command.env("TSAN_OPTIONS", options);
        command
    }
}

/// Compiles and links a program, without a warning.
pub(crate) fn compile(source: &Path, language: Language, linked: Linked<'_>) -> Program {
    let place = tempfile::tempdir().unwrap();
    let (compiler, standard) = match language {
        Language::C => ("gcc", "-std=c11"),
        Language::Cpp => ("g++", "-std=c++17"),
    };
    let mut command = Command::new(compiler);
    command.args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g"]);
    if let Some(sanitizer) = sanitizer() {
        command.args([format!("-fsanitize={sanitizer}"), "-O1".into()]);
        if sanitizer == "thread" {
            command.arg(folder().join("cxx/tests/tsan.c"));
        }
    }
    command
        .arg("-o")
        .arg(place.path().join("program"))
        .arg(source);
    let mut library = None;
    match linked {
        Linked::Built => {
            command.arg("-I").arg(folder().join("include"));
            command.arg(built().join("libcellar_capi.a"));
            command.args(["-pthread", "-ldl", "-lm"]);
        }
        Linked::Package(installed, package) => {
            let flags = passes(installed.pkg_config().args(["--cflags", "--libs", package]));
            command.args(flags.split_whitespace());
            library = Some(installed.libraries());
        }
    }
    passes(&mut command);
    Program { place, library }
}

/// The library, installed below a separate prefix.
pub(crate) struct Installed {
    place: TempDir,
    /// `PREFIX`, without its slash.
    below: &'static str,
    /// The folder of libraries below it.
    libraries: &'static str,
}

impl Installed {
    /// The path where programs find it: `DESTDIR` and `PREFIX` together.
    pub(crate) fn prefix(&self) -> PathBuf {
        self.place.path().join(self.below)
    }

    /// The folder of its libraries.
    pub(crate) fn libraries(&self) -> PathBuf {
        self.prefix().join(self.libraries)
    }

    /// pkg-config, with `DESTDIR` as the root of all paths.
    pub(crate) fn pkg_config(&self) -> Command {
        let mut command = Command::new("pkg-config");
        command
            .env("PKG_CONFIG_PATH", self.libraries().join("pkgconfig"))
            .env("PKG_CONFIG_SYSROOT_DIR", self.place.path())
            // Folders below it are not the system's, whatever their names.
            .env("PKG_CONFIG_ALLOW_SYSTEM_CFLAGS", "1")
            .env("PKG_CONFIG_ALLOW_SYSTEM_LIBS", "1");
        command
    }
}

/// Installs the library.
pub(crate) fn install() -> Installed {
    let place = tempfile::tempdir().unwrap();
    let program: OsString = folder().join("install").into();
    passes(
        Command::new(program)
            .arg(built())
            .env("DESTDIR", place.path())
            .env("PREFIX", "/opt/cellar"),
    );
    Installed {
        place,
        below: "opt/cellar",
        libraries: "lib",
    }
}

/// The library from a package of this form, and the package; none without the form's tools.
pub(crate) fn packaged(form: &str) -> Option<(Installed, PathBuf)> {
    let tools: &[&str] = match form {
        "rpm" => &["cargo-generate-rpm", "rpm2cpio", "cpio"],
        _ => &["dpkg-deb"],
    };
    for tool in tools {
        if Command::new(tool).arg("--version").output().is_err() {
            eprintln!("skipped: no .{form} is made, {tool} is not installed");
            return None;
        }
    }
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("package");
    let package = root().join("packaging/package");
    let mut made = Command::new(package);
    passes(
        made.arg(built())
            .arg(&folder)
            .arg("cellar-near")
            .env("FORMS", form),
    );
    let mut files = std::fs::read_dir(&folder).unwrap();
    let is_package = |file: &PathBuf| file.extension().is_some_and(|it| it == form);
    let package = files.find_map(|file| Some(file.unwrap().path()).filter(is_package));
    let package = package.expect("the package is made");
    let unpack = match form {
        "rpm" => "rpm2cpio \"$0\" | cpio --extract --quiet --make-directories",
        _ => "dpkg-deb --extract \"$0\" .",
    };
    let mut shell = Command::new("sh");
    passes(
        shell
            .args(["-c", unpack])
            .arg(&package)
            .current_dir(place.path()),
    );
    let libraries = if form == "rpm" { "lib64" } else { "lib" };
    let installed = Installed {
        place,
        below: "usr",
        libraries,
    };
    Some((installed, package))
}
