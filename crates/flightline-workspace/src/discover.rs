//! Finds a fleet's state folder: here or above, or in the main work tree of this repository.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flightline_core::{Code, Refusal};

use crate::beneath::Dir;

pub const STATE_FOLDER: &str = ".flightline";

/// A path and little else stands in the files by which git links work trees.
const LONGEST: usize = 8 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    pub state: PathBuf,
    /// The root that paths are relative to: of the work tree the caller is in.
    pub root: PathBuf,
}

/// Finds the state folder from `here` upwards, and through git's common folder, so that all work trees
/// of one repository share a fleet. Goes no further than the repository, the user's home and the file system
/// that `here` is in: what lies above belongs to others. Refuses a state folder that belongs to another user.
pub fn discover(here: &Path, home: Option<&Path>) -> Result<Option<Home>, Refusal> {
    let device = device_of(here);
    for folder in here.ancestors() {
        if device_of(folder) != device {
            return Ok(None);
        }
        let main = main_work_tree(folder);
        for place in [Some(folder), main.as_deref()].into_iter().flatten() {
            let state = place.join(STATE_FOLDER);
            if is_own_folder(&state)? {
                return Ok(Some(Home {
                    state,
                    root: folder.to_path_buf(),
                }));
            }
        }
        if is_repository(folder) || home == Some(folder) {
            return Ok(None);
        }
    }
    Ok(None)
}

/// The root of the git repository around `here`, when there is one.
pub fn repository_root(here: &Path) -> Option<PathBuf> {
    let mut above = here.ancestors();
    above
        .find(|folder| is_repository(folder))
        .map(Path::to_path_buf)
}

fn is_repository(folder: &Path) -> bool {
    fs::symlink_metadata(folder.join(".git")).is_ok()
}

fn device_of(folder: &Path) -> Option<u64> {
    fs::metadata(folder).ok().map(|seen| seen.dev())
}

/// Returns true when there is a folder of the user's. A folder of another user is refused: its owner could have us do
/// anything.
fn is_own_folder(state: &Path) -> Result<bool, Refusal> {
    let Ok(seen) = fs::symlink_metadata(state) else {
        return Ok(false);
    };
    if !seen.is_dir() || seen.uid() == rustix::process::geteuid().as_raw() {
        return Ok(seen.is_dir());
    }
    Err(Refusal::new(
        Code::Untrusted,
        format!(
            "{} belongs to another user (uid {}), and is not used",
            state.display(),
            seen.uid()
        ),
    )
    .hint("work as that user, or in a repository of your own: `git clone`, then `fleet init`"))
}

/// In a linked work tree, `.git` is a file that names a folder in `worktrees` of the main repository's `.git`; and that
/// folder must name the work tree. Only git makes folders there: one that lies elsewhere is a stranger's, whatever it
/// says.
fn main_work_tree(folder: &Path) -> Option<PathBuf> {
    let text = |folder: &Path, name: &str| {
        let text = Dir::shared(folder).ok()?.read_text(name, LONGEST).ok()??;
        text.lines().next().map(|line| line.trim().to_owned())
    };
    let named = text(folder, ".git")?;
    let git_folder = folder.join(named.strip_prefix("gitdir:")?.trim());
    let back = git_folder.join(text(&git_folder, "gitdir")?);
    if back.canonicalize().ok()? != folder.join(".git").canonicalize().ok()? {
        return None;
    }
    let common = git_folder.join(text(&git_folder, "commondir")?);
    let common = common.canonicalize().ok()?;
    if git_folder.canonicalize().ok()?.parent()? != common.join("worktrees") {
        return None;
    }
    (common.file_name()? == ".git").then(|| common.parent().map(Path::to_path_buf))?
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "tests make files as anybody could"
)]
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
        assert_eq!(discover(&main, None).unwrap(), None);
        fs::create_dir(main.join(STATE_FOLDER)).unwrap();
        fs::create_dir_all(main.join("a/b")).unwrap();
        let state = main.join(STATE_FOLDER);
        assert_eq!(
            discover(&main.join("a/b"), None).unwrap(),
            Some(Home {
                state: state.clone(),
                root: main.clone()
            })
        );
        assert_eq!(
            discover(&linked, None).unwrap(),
            Some(Home {
                state,
                root: linked.clone()
            })
        );
        assert_eq!(repository_root(&main.join("a")), Some(main));
    }

    #[test]
    fn a_search_ends_at_the_repository_and_at_home() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        let (nested, plain) = (base.join("nested/src"), base.join("home/notes"));
        for folder in [&nested, &plain, &base.join(STATE_FOLDER)] {
            fs::create_dir_all(folder).unwrap();
        }
        let found = |here: &Path, home: Option<&Path>| discover(here, home).unwrap();
        assert_eq!(found(&nested, None).unwrap().root, base);
        assert_eq!(found(&plain, Some(&base)).unwrap().root, base);
        fs::create_dir(base.join("nested/.git")).unwrap();
        assert_eq!(found(&nested, None), None, "another repository");
        assert_eq!(found(&plain, Some(&base.join("home"))), None, "above home");
    }

    #[test]
    fn a_file_that_only_claims_to_be_of_a_work_tree_leads_nowhere() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        let (main, stranger) = (base.join("main"), base.join("stranger"));
        let linked = main.join(".git/worktrees/linked");
        for folder in [&linked, &stranger, &main.join(STATE_FOLDER)] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(linked.join("commondir"), "../..\n").unwrap();
        fs::write(linked.join("gitdir"), "/elsewhere/.git\n").unwrap();
        let claim = format!("gitdir: {}\n", linked.display());
        fs::write(stranger.join(".git"), claim).unwrap();
        assert_eq!(discover(&stranger, None).unwrap(), None);
        let back = format!("{}\n", stranger.join(".git").display());
        fs::write(linked.join("gitdir"), back).unwrap();
        let found = discover(&stranger, None).unwrap().unwrap();
        assert_eq!(found.state, main.join(STATE_FOLDER));
        // A folder that the stranger made says all the right things, and lies in the wrong place.
        let fake = stranger.join("fake");
        fs::create_dir(&fake).unwrap();
        fs::write(stranger.join(".git"), "gitdir: fake\n").unwrap();
        fs::write(fake.join("gitdir"), "../.git\n").unwrap();
        let common = format!("{}\n", main.join(".git").display());
        fs::write(fake.join("commondir"), common).unwrap();
        assert_eq!(discover(&stranger, None).unwrap(), None);
    }

    #[test]
    fn a_state_folder_of_another_user_is_refused() {
        if !rustix::process::geteuid().is_root() {
            // Only root can give a folder away.
            return;
        }
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        let state = base.join(STATE_FOLDER);
        fs::create_dir_all(base.join("sub")).unwrap();
        fs::create_dir(&state).unwrap();
        std::os::unix::fs::chown(&state, Some(4242), None).unwrap();
        let refusal = discover(&base.join("sub"), None).unwrap_err();
        assert_eq!(refusal.code, Code::Untrusted);
        assert!(refusal.message.contains("uid 4242"), "{}", refusal.message);
    }
}
