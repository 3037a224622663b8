//! Shell commands that are hard to undo.

mod rules;
mod split;

use split::Simple;

/// A part of a command line that is hard to undo.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Destructive {
    /// The act of the command, as one of a few words: `git_push`, `git_force_push`, `git_reset_hard`, `git_clean`,
    /// `rm_recursive`, `migrate`, `deploy`, `publish`, `drop_database`.
    pub operation: &'static str,
    /// The target of the act, in the command's own words: the remote and the branch, the paths, the server.
    pub target: Option<String>,
}

/// The operations, the worst first.
const WORST_FIRST: [&str; 9] = [
    "drop_database",
    "git_force_push",
    "migrate",
    "deploy",
    "publish",
    "git_reset_hard",
    "git_clean",
    "rm_recursive",
    "git_push",
];

/// The largest depth to which commands are looked for inside of commands.
const DEEPEST: usize = 8;

/// The most words that are tried as the beginning of a command, where the command line does not say which one is.
const MOST_GUESSES: usize = 16;

/// The worst thing that a command line does, where it does one that is hard to undo. A deleted branch of a remote counts as a forced
/// push.
pub fn destructive(command: &str) -> Option<Destructive> {
    all_destructive(command).into_iter().next()
}

/// Returns every act of a command line that is hard to undo, the worst first.
pub fn all_destructive(command: &str) -> Vec<Destructive> {
    let mut found = Vec::new();
    search(command, 0, &mut found);
    found.sort_by_key(|it| WORST_FIRST.iter().position(|known| *known == it.operation));
    found.dedup();
    found
}

fn search(command: &str, depth: usize, found: &mut Vec<Destructive>) {
    if depth > DEEPEST {
        return;
    }
    for simple in split::commands(command) {
        let words: Vec<&str> = simple.words.iter().map(String::as_str).collect();
        weigh(&words, &simple, depth, found);
    }
}

/// Judges one command, and the command that it runs.
fn weigh(words: &[&str], simple: &Simple, depth: usize, found: &mut Vec<Destructive>) {
    let words = rules::without_wrappers(words);
    let Some((program, arguments)) = words.split_first() else {
        return;
    };
    let program = base_name(program);
    if depth > DEEPEST {
        return;
    }
    if let Some(script) = rules::script(program, arguments) {
        return search(&script, depth + 1, found);
    }
    if rules::is_shell(program) {
        // A shell without a script runs its input, or a file.
        if let Some(input) = &simple.stdin {
            search(input, depth + 1, found);
        }
        let file = arguments.iter().position(|it| !it.starts_with('-'));
        if let Some(at) = file {
            weigh(&arguments[at..], simple, depth + 1, found);
        }
        return;
    }
    // Guesses multiply, so that they go less deep.
    let guessed = depth + DEEPEST / 2;
    if rules::runs_elsewhere(program, arguments) {
        // The command that it runs begins somewhere among the arguments.
        for at in 0..arguments.len().min(MOST_GUESSES) {
            let before = found.len();
            match arguments[at..] {
                [single] => search(single, guessed, found),
                _ => weigh(&arguments[at..], simple, guessed, found),
            }
            if found.len() > before {
                return;
            }
        }
        return;
    }
    if program == "find" {
        let is_run = |it: &&str| matches!(*it, "-exec" | "-execdir" | "-ok" | "-okdir");
        for run in arguments.split(is_run).skip(1).take(MOST_GUESSES) {
            let end = run.iter().position(|it| matches!(*it, ";" | "+"));
            weigh(&run[..end.unwrap_or(run.len())], simple, guessed, found);
        }
        return;
    }
    found.extend(rules::judge(program, arguments, simple.stdin.as_deref()));
}

/// The name of a program without the folder that it is in.
fn base_name(program: &str) -> &str {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    name.strip_suffix(".exe").unwrap_or(name)
}
