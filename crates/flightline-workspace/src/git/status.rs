//! Reads the output of `git status --porcelain=v2 -z --branch` strictly: bytes in, values out.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepositoryStatus {
    /// The branch; none when HEAD is detached. Not always UTF-8.
    pub branch: Option<Vec<u8>>,
    /// The commit; none before the first one.
    pub commit: Option<String>,
    /// The files that differ from HEAD, as git lists them.
    pub entries: Vec<StatusEntry>,
    /// True when the last record has no end: the rest of the output was cut off.
    pub cut: bool,
}

/// A file that is not as it was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusEntry {
    /// The path of the file, from the root of the repository's work tree.
    pub path: PathBuf,
    pub change: StatusChange,
}

/// The difference between a file and the committed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusChange {
    Tracked {
        staged: ChangeKind,
        unstaged: ChangeKind,
    },
    /// Two branches changed the file, and the conflict is not settled.
    Unmerged,
    Untracked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    Same,
    Added,
    Deleted,
    Modified,
}

/// Output that git does not print.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record {record} of what git printed cannot be read: {why}")]
pub struct Malformed {
    pub record: usize,
    /// The reason why the record cannot be read.
    pub why: &'static str,
}

/// Reads what git printed. A last record without its end is left out, and said.
pub fn parse(text: &[u8]) -> Result<RepositoryStatus, Malformed> {
    let mut status = RepositoryStatus::default();
    let mut rest = text;
    let mut record = 0;
    while !rest.is_empty() {
        record += 1;
        let bad = |why: &'static str| Malformed { record, why };
        let Some((line, after)) = split(rest, 0) else {
            status.cut = true;
            break;
        };
        rest = after;
        let (mark, body) = split(line, b' ').ok_or_else(|| bad("it has no fields"))?;
        match mark {
            b"#" => header(&mut status, body).map_err(bad)?,
            b"1" => {
                let entry = tracked(body, 6).map_err(bad)?;
                status.entries.push(entry);
            }
            b"2" => {
                // A second path follows: where it came from.
                let Some((from, after)) = split(rest, 0) else {
                    status.cut = true;
                    break;
                };
                rest = after;
                renamed(&mut status, body, from).map_err(bad)?;
            }
            b"u" => status.entries.push(StatusEntry {
                path: path(fields(body, 9).map_err(bad)?.1).map_err(bad)?,
                change: StatusChange::Unmerged,
            }),
            b"?" => status.entries.push(StatusEntry {
                path: path(body).map_err(bad)?,
                change: StatusChange::Untracked,
            }),
            // Ignored files, which were not asked for.
            b"!" => {}
            _ => return Err(bad("its kind is not known")),
        }
    }
    Ok(status)
}

fn header(status: &mut RepositoryStatus, body: &[u8]) -> Result<(), &'static str> {
    let Some((name, value)) = split(body, b' ') else {
        return Ok(());
    };
    match (name, value) {
        (b"branch.oid", b"(initial)") => status.commit = None,
        (b"branch.oid", oid) => {
            let text = std::str::from_utf8(oid).map_err(|_| "a commit's id is not text")?;
            let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !digits || !matches!(text.len(), 40 | 64) {
                return Err("a commit's id is none");
            }
            status.commit = Some(text.to_owned());
        }
        (b"branch.head", b"(detached)") => status.branch = None,
        (b"branch.head", name) => status.branch = Some(name.to_vec()),
        // Upstreams, stashes, and what later versions of git have to say.
        _ => {}
    }
    Ok(())
}

/// `XY sub …` and then a path, after so many more fields.
fn tracked(body: &[u8], more: usize) -> Result<StatusEntry, &'static str> {
    let (letters, rest) = fields(body, more + 1)?;
    let [staged, unstaged] = letters else {
        return Err("its two letters are not two");
    };
    Ok(StatusEntry {
        path: path(rest)?,
        change: StatusChange::Tracked {
            staged: kind(*staged)?,
            unstaged: kind(*unstaged)?,
        },
    })
}

/// A renamed file is new here and gone there; a copied one is new.
fn renamed(status: &mut RepositoryStatus, body: &[u8], from: &[u8]) -> Result<(), &'static str> {
    let entry = tracked(body, 7)?;
    let letters = &body[..2];
    let StatusChange::Tracked { staged, unstaged } = entry.change else {
        return Err("it is no rename");
    };
    let new = |letter: u8, kind: ChangeKind| match letter {
        b'R' | b'C' => ChangeKind::Added,
        _ => kind,
    };
    let gone = |letter: u8| match letter {
        b'R' => ChangeKind::Deleted,
        _ => ChangeKind::Same,
    };
    status.entries.push(StatusEntry {
        path: entry.path,
        change: StatusChange::Tracked {
            staged: new(letters[0], staged),
            unstaged: new(letters[1], unstaged),
        },
    });
    if letters.contains(&b'R') {
        status.entries.push(StatusEntry {
            path: path(from)?,
            change: StatusChange::Tracked {
                staged: gone(letters[0]),
                unstaged: gone(letters[1]),
            },
        });
    }
    Ok(())
}

fn kind(letter: u8) -> Result<ChangeKind, &'static str> {
    match letter {
        b'.' => Ok(ChangeKind::Same),
        b'A' => Ok(ChangeKind::Added),
        b'D' => Ok(ChangeKind::Deleted),
        // Another content, another type; renames and copies are settled by their own record.
        b'M' | b'T' | b'R' | b'C' => Ok(ChangeKind::Modified),
        _ => Err("a letter of it is not known"),
    }
}

/// The first field, and the rest after `count` fields.
fn fields(body: &[u8], count: usize) -> Result<(&[u8], &[u8]), &'static str> {
    let short = "it has too few fields";
    let (first, mut rest) = split(body, b' ').ok_or(short)?;
    for _ in 1..count {
        rest = split(rest, b' ').ok_or(short)?.1;
    }
    Ok((first, rest))
}

/// A path inside the work tree.
fn path(bytes: &[u8]) -> Result<PathBuf, &'static str> {
    let path = PathBuf::from(OsStr::from_bytes(bytes));
    let inside = path
        .components()
        .all(|part| matches!(part, std::path::Component::Normal(_)));
    match inside && !bytes.is_empty() {
        true => Ok(path),
        false => Err("its path leads elsewhere"),
    }
}

fn split(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let index = bytes.iter().position(|byte| *byte == at)?;
    Some((&bytes[..index], &bytes[index + 1..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OID: &str = "0123456789012345678901234567890123456789";

    fn ordinary(letters: &str, path: &str) -> String {
        format!("1 {letters} N... 100644 100644 100644 {OID} {OID} {path}\0")
    }

    fn check(text: &str) -> Result<RepositoryStatus, Malformed> {
        parse(text.as_bytes())
    }

    fn entries(text: &str) -> Vec<String> {
        let status = check(text).unwrap();
        let told = status.entries.iter().map(|entry| {
            let change = match entry.change {
                StatusChange::Tracked { staged, unstaged } => format!("{staged:?}/{unstaged:?}"),
                StatusChange::Unmerged => "Unmerged".to_owned(),
                StatusChange::Untracked => "Untracked".to_owned(),
            };
            format!("{change} {}", entry.path.display())
        });
        told.collect()
    }

    #[test]
    fn branch_and_commit_are_read_and_unknown_headers_passed_over() {
        let head = format!(
            "# branch.oid {OID}\0# branch.head main\0# branch.upstream origin/main\0# branch.ab +0 -0\0# stash 3\0# new\0"
        );
        let status = check(&head).unwrap();
        assert_eq!(status.branch.as_deref(), Some(&b"main"[..]));
        assert_eq!(status.commit.as_deref(), Some(OID));
        assert!(!status.cut && status.entries.is_empty());
        let status = check("# branch.oid (initial)\0# branch.head (detached)\0").unwrap();
        assert_eq!((status.branch, status.commit), (None, None));
    }

    #[test]
    fn names_may_hold_anything_but_an_end() {
        let text = [
            &ordinary(".M", "with space"),
            &ordinary("A.", "with\nnew line"),
            "? -dash\0",
            "? caf\u{e9} \u{202e}x\0",
        ]
        .map(|part| part.to_owned())
        .concat();
        assert_eq!(
            entries(&text),
            [
                "Same/Modified with space",
                "Added/Same with\nnew line",
                "Untracked -dash",
                "Untracked caf\u{e9} \u{202e}x",
            ]
        );
        let status = parse(b"? \xff\xfe.bin\0").unwrap();
        assert_eq!(
            status.entries[0].path.as_os_str().as_bytes(),
            b"\xff\xfe.bin"
        );
    }

    #[test]
    fn renames_are_one_gone_and_one_new_and_conflicts_are_told_apart() {
        let renamed = |letters: &str, mark: &str| {
            format!(
                "2 {letters} N... 100644 100644 100644 {OID} {OID} {mark}100 new name\0old name\0"
            )
        };
        assert_eq!(
            entries(&renamed("R.", "R")),
            ["Added/Same new name", "Deleted/Same old name"]
        );
        assert_eq!(
            entries(&renamed("RM", "R")),
            ["Added/Modified new name", "Deleted/Same old name"]
        );
        assert_eq!(entries(&renamed("C.", "C")), ["Added/Same new name"]);
        let unmerged = format!("u UU N... 100644 100644 100644 100644 {OID} {OID} {OID} both\0");
        assert_eq!(entries(&unmerged), ["Unmerged both"]);
        assert_eq!(entries("! target/\0"), Vec::<String>::new());
    }

    #[test]
    fn what_git_does_not_print_is_refused_and_what_is_cut_is_said() {
        for bad in [
            "\0",
            "x\0",
            "9 a\0",
            "? ../outside\0",
            "? /etc/passwd\0",
            "? \0",
            "1 .M N... 100644\0",
            &ordinary(".Q", "a"),
            &ordinary("MMM", "a"),
            &ordinary("M.", "a/../../b"),
            "# branch.oid nothing\0",
            "u UU N... 1 2 3 4 a b\0",
        ] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
        let cut = check(&format!("{}? half", ordinary(".M", "whole"))).unwrap();
        assert!(cut.cut);
        assert_eq!(cut.entries.len(), 1);
        let renamed = format!("2 R. N... 100644 100644 100644 {OID} {OID} R100 new\0ol");
        assert!(check(&renamed).unwrap().cut);
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&text);
        }

        #[test]
        fn whatever_is_cut_off_the_beginning_is_read(
            names in proptest::collection::vec("[^\0/.][^\0/]{0,8}", 0..6),
            at in 0usize..400,
        ) {
            let whole: String = names.iter().map(|name| ordinary(".M", name)).collect();
            let all = parse(whole.as_bytes()).unwrap();
            prop_assert_eq!(all.entries.len(), names.len());
            let some = parse(&whole.as_bytes()[..at.min(whole.len())]).unwrap();
            prop_assert!(all.entries.starts_with(&some.entries));
        }
    }
}
