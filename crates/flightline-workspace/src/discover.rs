//! Where a fleet's state folder is: here or above, or in the main work tree of this repository.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder that holds a fleet's state.
pub const STATE_FOLDER: &str = ".flightline";

/// Where a fleet lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The state folder.
    pub state: PathBuf,
    /// The root that paths are relative to: of the work tree the caller is in.
    pub root: PathBuf,
}

/// Finds the state folder from `here` upwards, and through git's common folder, so that all work trees
/// of one repository share a fleet.
#[must_use]
pub fn discover(here: &Path) -> Option<Home> {
    for folder in here.ancestors() {
        let state = folder.join(STATE_FOLDER);
        if is_folder(&state) {
            return Some(Home {
                state,
                root: folder.to_path_buf(),
            });
        }
        if let Some(main) = main_work_tree(folder) {
            let state = main.join(STATE_FOLDER);
            if is_folder(&state) {
                return Some(Home {
                    state,
                    root: folder.to_path_buf(),
                });
            }
        }
    }
    None
}

/// The root of the git repository around `here`, when there is one.
#[must_use]
pub fn repository_root(here: &Path) -> Option<PathBuf> {
    here.ancestors()
        .find(|folder| fs::symlink_metadata(folder.join(".git")).is_ok())
        .map(Path::to_path_buf)
}

fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|seen| seen.is_dir())
}

/// In a linked work tree, `.git` is a file that names a folder inside the main repository's `.git`.
fn main_work_tree(folder: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(folder.join(".git")).ok()?;
    let git_folder = folder.join(text.lines().next()?.strip_prefix("gitdir:")?.trim());
    let common = fs::read_to_string(git_folder.join("commondir")).ok()?;
    let common = git_folder.join(common.trim()).canonicalize().ok()?;
    (common.file_name()? == ".git").then(|| common.parent().map(Path::to_path_buf))?
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_state_folder_is_found_from_below_and_from_a_linked_work_tree() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        let (main, linked) = (base.join("main"), base.join("linked"));
        let git = |arguments: &[&str]| {
            let done = Command::new("git")
                .args([
                    "-c",
                    "user.name=t",
                    "-c",
                    "user.email=t@example.invalid",
                    "-c",
                    "init.defaultBranch=main",
                ])
                .args(arguments)
                .output()
                .unwrap();
            assert!(
                done.status.success(),
                "{}",
                String::from_utf8_lossy(&done.stderr)
            );
        };
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        git(&["init", "-q", &text(&main)]);
        git(&[
            "-C",
            &text(&main),
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "first",
        ]);
        git(&["-C", &text(&main), "worktree", "add", "-q", &text(&linked)]);
        assert_eq!(discover(&main), None);
        fs::create_dir(main.join(STATE_FOLDER)).unwrap();
        fs::create_dir_all(main.join("a/b")).unwrap();
        let state = main.join(STATE_FOLDER);
        assert_eq!(
            discover(&main.join("a/b")),
            Some(Home {
                state: state.clone(),
                root: main.clone()
            })
        );
        assert_eq!(
            discover(&linked),
            Some(Home {
                state,
                root: linked.clone()
            })
        );
        assert_eq!(repository_root(&main.join("a")), Some(main));
    }
}
