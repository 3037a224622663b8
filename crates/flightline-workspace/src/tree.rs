//! Looks at a work tree: the files that git reports as changed, and their content. Bounded in time and size; files
//! beyond the bounds are counted and reported.

mod file;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use flightline_core::file_system::{
    CommitHash, FileSystem, GitStatus, Head, SeenFile, SeenKind, TreeNow,
};
use flightline_core::{RepoPath, Title};

use crate::discover::{STATE_FOLDER, repository_root};
use crate::git::status::{ChangeKind, RepositoryStatus, StatusChange, parse};
use crate::git::{GitFailure, GitOutput, Repository, Surroundings};
use file::{FileScanner, ScanBudget};

/// The bounds of time and size for looking at a work tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The time that git may take to say what changed.
    pub git: Duration,
    /// The time that git may take to say where HEAD is, when it did not say what changed.
    pub head: Duration,
    /// The time that files may take.
    pub hashing: Duration,
    /// The number of bytes of git's answer that are kept.
    pub output: usize,
    pub files: usize,
    pub bytes: u64,
    /// The largest size at which a file is hashed, in bytes.
    pub file: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            git: Duration::from_secs(2),
            head: Duration::from_millis(500),
            hashing: Duration::from_secs(1),
            output: 1024 * 1024,
            files: 500,
            bytes: 64 * 1024 * 1024,
            file: 16 * 1024 * 1024,
        }
    }
}

impl Bounds {
    /// Returns the time after which a file system that hangs is not waited for any more.
    fn all(&self) -> Duration {
        self.git + self.head + self.hashing + self.head
    }
}

#[derive(Clone, Debug)]
pub struct WorkTree {
    root: PathBuf,
    surroundings: Surroundings,
    bounds: Bounds,
    /// Files and folders that we write ourselves.
    written: Vec<PathBuf>,
}

impl WorkTree {
    /// The work tree whose paths are relative to `root`.
    pub fn new(root: &Path, surroundings: Surroundings, bounds: Bounds) -> Self {
        Self {
            root: root.to_path_buf(),
            surroundings,
            bounds,
            written: Vec::new(),
        }
    }

    /// Returns this work tree without files and folders that we write ourselves: they are no part of the work.
    #[must_use]
    pub fn without(self, written: Vec<PathBuf>) -> Self {
        Self { written, ..self }
    }

    /// Looks at the work tree. Of the files that are `named`, each is looked at, changed or not.
    pub fn look(&self, named: &[RepoPath]) -> FileSystem {
        let named = named.to_vec();
        self.aside(move |tree| tree.look_here(&named))
            .unwrap_or_else(|why| FileSystem {
                truncated: true,
                warnings: warning(&why).into_iter().collect(),
                ..FileSystem::default()
            })
    }

    /// Looks at HEAD and the named files: claims are compared with these.
    pub fn glance(&self, named: &[RepoPath]) -> TreeNow {
        let files = named.to_vec();
        self.aside(move |tree| tree.glance_here(&files))
            .unwrap_or_else(|_| TreeNow {
                left_out: named.len() as u64,
                ..TreeNow::default()
            })
    }

    /// A file system that hangs must not hang the command: another thread waits for it.
    fn aside<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, String> {
        let (send, receive) = mpsc::channel();
        let (tree, limit) = (self.clone(), self.bounds.all());
        std::thread::spawn(move || {
            let _ = send.send(look(&tree));
        });
        receive
            .recv_timeout(limit)
            .map_err(|_| "the file system did not answer in time".to_owned())
    }

    fn glance_here(&self, named: &[RepoPath]) -> TreeNow {
        let mut room = self.room();
        let (mut files, mut left_out) = (Vec::new(), 0);
        for path in self.work(named) {
            match self.seer().see(path, &mut room) {
                Some(seen) => files.push(seen),
                None => left_out += 1,
            }
        }
        let head = self
            .repository()
            .and_then(Result::ok)
            .and_then(|(repository, _)| head_of(&repository, self.bounds.git));
        TreeNow {
            head,
            files,
            left_out,
        }
    }

    /// Returns true when the repository tracks the state folder: then a pull can replace it. False when git cannot
    /// tell.
    pub fn tracks_state(&self) -> bool {
        self.tracks(&[crate::STATE_FOLDER]) == Some(true)
    }

    /// Returns true when the repository tracks one of these files, or something below one of these folders: then a pull
    /// can replace it. None when git cannot tell.
    pub fn tracks(&self, files: &[&str]) -> Option<bool> {
        match self.repository() {
            None => Some(false),
            Some(repository) => repository.ok()?.0.tracks(files, self.bounds.git).ok(),
        }
    }

    /// Returns the repository around the work tree, and the path of the work tree in it.
    fn repository(&self) -> Option<Result<(Repository, PathBuf), GitFailure>> {
        // As the kernel finds it: the folders above a link's target are others than those above the link.
        let root = self.root.canonicalize();
        let root = root.unwrap_or_else(|_| self.root.clone());
        let top = repository_root(&root)?;
        let prefix = root.strip_prefix(&top).ok()?.to_path_buf();
        let repository = Repository::new(&self.surroundings, &top, &prefix);
        Some(repository.map(|repository| (repository, prefix)))
    }

    fn room(&self) -> ScanBudget {
        ScanBudget {
            until: Instant::now() + self.bounds.hashing,
            files: self.bounds.files,
            bytes: self.bounds.bytes,
            file: self.bounds.file,
        }
    }

    fn seer(&self) -> FileScanner<'_> {
        FileScanner { root: &self.root }
    }

    fn look_here(&self, named: &[RepoPath]) -> FileSystem {
        let mut found = match self.repository() {
            None => GitChanges::default(),
            Some(Err(silence)) => GitChanges::silent(&silence),
            Some(Ok((repository, prefix))) => self.ask(&repository, &prefix),
        };
        let mut room = self.room();
        // Named files come first: a resume will ask about them.
        let mut seen: BTreeMap<RepoPath, SeenFile> = BTreeMap::new();
        let named: BTreeSet<&RepoPath> = self.work(named).collect();
        let changed = found.modified.iter().chain(&found.created);
        for path in named.iter().copied().chain(changed) {
            if !seen.contains_key(path)
                && let Some(file) = self.seer().see(path, &mut room)
            {
                seen.insert(path.clone(), file);
            }
        }
        let mut unseen = 0;
        let mut take = |paths: &BTreeSet<RepoPath>| -> Vec<SeenFile> {
            let taken: Vec<SeenFile> = paths.iter().filter_map(|path| seen.remove(path)).collect();
            unseen += (paths.len() - taken.len()) as u64;
            taken
        };
        let (modified_files, created_files) = (take(&found.modified), take(&found.created));
        // A name that leads nowhere says nothing: it may be a file to come.
        let named_files: Vec<SeenFile> = seen
            .into_values()
            .filter(|file| file.kind != SeenKind::Missing)
            .filter(|file| !found.deleted.contains(&file.path))
            .collect();
        found.left_out += unseen;
        let git_status = found.git.take();
        FileSystem {
            seen_at: None,
            modified_files,
            created_files,
            deleted_files: found.deleted.into_iter().collect(),
            named_files,
            git_status,
            truncated: found.truncated || found.left_out > 0,
            left_out: found.left_out,
            warnings: found.warnings,
        }
    }

    fn ask(&self, repository: &Repository, prefix: &Path) -> GitChanges {
        let answer = repository
            .status(self.bounds.git, self.bounds.output)
            .and_then(|answer| {
                let status = parse(&answer.bytes);
                let status = status.map_err(|error| GitFailure::Trouble(error.to_string()))?;
                Ok((status, answer))
            });
        match answer {
            Ok((status, answer)) => self.sort(status, &answer, prefix),
            Err(silence) => {
                let mut found = GitChanges::silent(&silence);
                found.git = head_of(repository, self.bounds.head).map(|head| GitStatus {
                    branch: head.branch,
                    commit_hash: head.commit_hash,
                    is_dirty: None,
                    staged_files: Vec::new(),
                    unstaged_files: Vec::new(),
                });
                found
            }
        }
    }

    /// Returns true when a path is in our own folder or written by us, and so no part of the work.
    fn is_ours(&self, path: &Path) -> bool {
        let mut parts = path.components();
        parts.any(|part| part.as_os_str() == STATE_FOLDER)
            || self.written.iter().any(|ours| path.starts_with(ours))
    }

    /// Returns those of the named files that are part of the work.
    fn work<'a>(&self, named: &'a [RepoPath]) -> impl Iterator<Item = &'a RepoPath> {
        let named = named.iter();
        named.filter(|path| !self.is_ours(Path::new(path.as_str())))
    }

    fn sort(&self, status: RepositoryStatus, answer: &GitOutput, prefix: &Path) -> GitChanges {
        let mut found = GitChanges {
            left_out: answer.records_dropped,
            truncated: status.cut || answer.records_dropped > 0,
            ..GitChanges::default()
        };
        let (mut staged_files, mut unstaged_files) = (BTreeSet::new(), BTreeSet::new());
        let (mut nameless, mut dirty) = (0_u64, found.truncated);
        for entry in &status.entries {
            let Ok(inside) = entry.path.strip_prefix(prefix) else {
                continue;
            };
            if self.is_ours(inside) {
                continue;
            }
            dirty = true;
            let text = std::str::from_utf8(inside.as_os_str().as_bytes()).ok();
            let Some(path) = text.and_then(|text| RepoPath::parse(text).ok()) else {
                nameless += 1;
                continue;
            };
            if found.len() >= self.bounds.files {
                found.left_out += 1;
                continue;
            }
            let (staged, unstaged) = match entry.change {
                StatusChange::Tracked { staged, unstaged } => (staged, unstaged),
                StatusChange::Unmerged => (ChangeKind::Same, ChangeKind::Modified),
                StatusChange::Untracked => (ChangeKind::Same, ChangeKind::Added),
            };
            if staged != ChangeKind::Same {
                staged_files.insert(path.clone());
            }
            if unstaged != ChangeKind::Same && entry.change != StatusChange::Untracked {
                unstaged_files.insert(path.clone());
            }
            found.put(path, staged, unstaged);
        }
        if nameless > 0 {
            found.left_out += nameless;
            let (noun, verb) = match nameless {
                1 => ("file", "has a name"),
                _ => ("files", "have names"),
            };
            found.warnings.extend(warning(&format!(
                "{nameless} {noun} {verb} that cannot be written down: not UTF-8, too long, with control characters or a secret"
            )));
        }
        let (head, odd) = head(&status);
        found.warnings.extend(odd);
        found.git = Some(GitStatus {
            branch: head.branch,
            commit_hash: head.commit_hash,
            is_dirty: Some(dirty),
            staged_files: staged_files.into_iter().collect(),
            unstaged_files: unstaged_files.into_iter().collect(),
        });
        found
    }
}

#[derive(Default)]
struct GitChanges {
    modified: BTreeSet<RepoPath>,
    created: BTreeSet<RepoPath>,
    deleted: BTreeSet<RepoPath>,
    git: Option<GitStatus>,
    left_out: u64,
    truncated: bool,
    warnings: Vec<Title>,
}

impl GitChanges {
    fn silent(silence: &GitFailure) -> Self {
        Self {
            // Where there is no git, nothing is missing that git would have said.
            truncated: *silence != GitFailure::NoGit,
            warnings: warning(&silence.told()).into_iter().collect(),
            ..Self::default()
        }
    }

    fn len(&self) -> usize {
        self.modified.len() + self.created.len() + self.deleted.len()
    }

    fn put(&mut self, path: RepoPath, staged: ChangeKind, unstaged: ChangeKind) {
        match (staged, unstaged) {
            // Staged as new, and gone again: it was never committed.
            (ChangeKind::Added, ChangeKind::Deleted) => {}
            (ChangeKind::Added, _) | (_, ChangeKind::Added) => {
                // Git forgot it, and it is still there.
                self.deleted.remove(&path);
                self.created.insert(path);
            }
            (ChangeKind::Deleted, _) | (_, ChangeKind::Deleted) => {
                if !self.created.contains(&path) {
                    self.deleted.insert(path);
                }
            }
            (ChangeKind::Modified | ChangeKind::Same, ChangeKind::Modified | ChangeKind::Same) => {
                self.modified.insert(path);
            }
        }
    }
}

fn head_of(repository: &Repository, limit: Duration) -> Option<Head> {
    let answer = repository.head(limit).ok()?;
    Some(head(&parse(&answer.bytes).ok()?).0)
}

/// Returns the branch and the commit of HEAD, and a warning about an odd name.
fn head(status: &RepositoryStatus) -> (Head, Option<Title>) {
    let name = status.branch.as_deref().map(String::from_utf8_lossy);
    let branch = name
        .as_deref()
        .and_then(|name| Title::parse("branch", name).ok());
    let odd = match (&name, &branch) {
        (Some(name), Some(branch)) => name != branch.as_str(),
        (Some(_), None) => true,
        (None, _) => false,
    };
    let head = Head {
        branch,
        commit_hash: status.commit.as_deref().and_then(CommitHash::parse),
    };
    let odd = odd.then(|| warning("the name of the branch cannot be written down as it is"));
    (head, odd.flatten())
}

fn warning(text: &str) -> Option<Title> {
    Title::parse("warning", text).ok()
}
