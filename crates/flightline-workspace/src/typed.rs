//! Reads a path on the command line as one inside the repository: one file has one name there, whatever link it was
//! reached by.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Component, Path, PathBuf};

use flightline_core::{Refusal, RepoPath};

/// The most links that are followed, as in the kernel.
const MOST_LINKS: usize = 40;

/// Returns the path inside the repository at `root` that `typed` means, when it was typed in `here`. Links inside the
/// work tree are followed, so that a lock on a file is one lock; the file itself need not be there yet. Refuses a path
/// that leads outside the repository.
pub fn repo_path(root: &Path, here: &Path, typed: &str) -> Result<RepoPath, Refusal> {
    if typed.is_empty() {
        return RepoPath::parse(typed);
    }
    let shown = flightline_core::redact::shown(typed);
    let outside = |how: &str| {
        Refusal::invalid(format!(
            "`{shown}` cannot be used as a path: it leads outside the repository{how}"
        ))
        .hint(format!("paths are inside {}", root.display()))
    };
    let absolute = here.join(typed);
    let mut parts: Vec<&OsStr> = Vec::new();
    for component in absolute.components() {
        match component {
            Component::Normal(part) => parts.push(part),
            Component::ParentDir => {
                if parts.pop() == Some(OsStr::new("**")) {
                    return RepoPath::parse(typed);
                }
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    let inside: PathBuf = std::iter::once(OsStr::new("/")).chain(parts).collect();
    let relative = inside.strip_prefix(root).map_err(|_| outside(""))?;
    let relative = match follow_links(root, relative) {
        Ok(relative) => relative,
        Err(Astray::Outside(link)) => {
            let link = flightline_core::redact::shown(&link.to_string_lossy());
            return Err(outside(&format!(" through the link `{link}`")));
        }
        Err(Astray::Endless) => {
            let why = format!("`{shown}` cannot be used as a path: its links lead nowhere");
            return Err(Refusal::invalid(why).hint("name the file itself"));
        }
    };
    let text = relative
        .to_str()
        .ok_or_else(|| Refusal::invalid("a path must be UTF-8"))?;
    RepoPath::parse(if text.is_empty() { "." } else { text })
}

/// The reason why a path cannot be followed.
enum Astray {
    /// A link, as it stands in the work tree, leads outside.
    Outside(PathBuf),
    /// The path has too many links, or they lead in a circle.
    Endless,
}

/// The path without links, part by part beneath `root`. A part that does not exist is taken as it is.
#[expect(
    clippy::disallowed_methods,
    reason = "where a link leads is looked at, and nothing is opened"
)]
fn follow_links(root: &Path, relative: &Path) -> Result<PathBuf, Astray> {
    let mut ahead: VecDeque<OsString> = relative.iter().map(OsStr::to_owned).collect();
    let (mut found, mut links) = (PathBuf::new(), 0);
    while let Some(part) = ahead.pop_front() {
        let next = found.join(&part);
        let Ok(target) = fs::read_link(root.join(&next)) else {
            found = next;
            continue;
        };
        links += 1;
        if links > MOST_LINKS {
            return Err(Astray::Endless);
        }
        let beneath = if target.is_absolute() {
            let real = fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
            let stripped = target
                .strip_prefix(root)
                .or_else(|_| target.strip_prefix(&real));
            found = PathBuf::new();
            stripped
                .map_err(|_| Astray::Outside(next.clone()))?
                .to_owned()
        } else {
            target
        };
        // A `..` in the target of a link counts from the folder of the link.
        let mut steps = Vec::new();
        for component in beneath.components() {
            match component {
                Component::Normal(part) => steps.push(part.to_owned()),
                Component::ParentDir => {
                    if steps.pop().is_none() && !found.pop() {
                        return Err(Astray::Outside(next));
                    }
                }
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        for step in steps.into_iter().rev() {
            ahead.push_front(step);
        }
    }
    Ok(found)
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "tests make files as anybody could"
)]
mod tests {
    use super::*;

    #[test]
    fn typed_paths_are_read_where_they_were_typed() {
        let (root, here) = (Path::new("/repo"), Path::new("/repo/src"));
        for (typed, meant) in [
            ("auth.ts", "src/auth.ts"),
            ("../lib", "lib"),
            ("/repo/a/b", "a/b"),
            (".", "src"),
            ("..", "."),
        ] {
            assert_eq!(
                repo_path(root, here, typed).unwrap().as_str(),
                meant,
                "{typed}"
            );
        }
        for outside in ["../..", "/etc/passwd", "../../repository"] {
            assert!(repo_path(root, here, outside).is_err(), "{outside}");
        }
    }

    #[test]
    fn links_inside_the_work_tree_are_followed_and_none_leads_out_of_it() {
        use std::os::unix::fs::symlink;

        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(root.join("src/deep")).unwrap();
        fs::write(root.join("src/a.rs"), "").unwrap();
        symlink("src", root.join("link")).unwrap();
        symlink("../src/deep", root.join("src/up")).unwrap();
        symlink(root.join("src"), root.join("whole")).unwrap();
        symlink("a.rs", root.join("src/b.rs")).unwrap();
        symlink("link/up", root.join("chain")).unwrap();
        symlink("..", root.join("out")).unwrap();
        symlink("/etc", root.join("etc")).unwrap();
        symlink("around", root.join("around")).unwrap();
        for (typed, meant) in [
            ("link/a.rs", "src/a.rs"),
            ("link", "src"),
            ("link/new/file.rs", "src/new/file.rs"),
            ("whole/a.rs", "src/a.rs"),
            ("src/b.rs", "src/a.rs"),
            ("link/b.rs", "src/a.rs"),
            ("src/up/x", "src/deep/x"),
            ("chain/x", "src/deep/x"),
            ("not/there", "not/there"),
        ] {
            let read = repo_path(&root, &root, typed).unwrap();
            assert_eq!(read.as_str(), meant, "{typed}");
        }
        for (typed, why) in [
            (
                "out/x",
                "leads outside the repository through the link `out`",
            ),
            (
                "etc/passwd",
                "leads outside the repository through the link `etc`",
            ),
            ("around", "its links lead nowhere"),
        ] {
            let refused = repo_path(&root, &root, typed).unwrap_err();
            assert!(
                refused.message.contains(why),
                "{typed}: {}",
                refused.message
            );
        }
    }
}
