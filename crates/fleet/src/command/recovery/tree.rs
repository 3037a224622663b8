//! Renders the changes of files since the checkpoint, below the report of `fleet resume`.

use flightline::core::briefing::FileMark;
use flightline::core::file_system::{CheckedFile, HeadMove, TreeCheck};
use flightline::core::recovery::RecoveryContext;

/// The most changed files that are named.
const MOST_FILES: usize = 20;

/// Lists the files, each with whether the reports about it are true, where that is known.
pub fn marked(context: &RecoveryContext) -> Vec<String> {
    let check = context.work_tree.as_ref();
    let files = context.files_modified.iter();
    files
        .map(|path| match check.and_then(|check| check.mark(path)) {
            Some(mark @ (FileMark::Verified | FileMark::Changed | FileMark::Missing)) => {
                format!("{path} ({})", mark_word(mark))
            }
            Some(FileMark::Claimed) | None => path.clone(),
        })
        .collect()
}

fn mark_word(mark: FileMark) -> &'static str {
    match mark {
        FileMark::Changed => "changed since",
        FileMark::Missing | FileMark::Claimed | FileMark::Verified => mark.as_str(),
    }
}

/// Lists everything else that is not as the checkpoint recorded it.
pub fn changes(check: &TreeCheck, context: &RecoveryContext) -> Vec<String> {
    let mut lines: Vec<String> = check.head_moved.iter().map(HeadMove::told).collect();
    let listed = |path: &str| context.files_modified.iter().any(|file| file == path);
    let wrong = check.files.iter().filter(|file| {
        matches!(file.mark, FileMark::Changed | FileMark::Missing) && !listed(file.path.as_str())
    });
    let wrong: Vec<&CheckedFile> = wrong.collect();
    let shown = wrong.iter().take(MOST_FILES);
    lines.extend(shown.map(|file| format!("{} {}", mark_word(file.mark), file.path)));
    if wrong.len() > MOST_FILES {
        let more = wrong.len() - MOST_FILES;
        lines.push(format!(
            "and {more} more: `fleet resume --dry-run --json` lists all"
        ));
    }
    match check.left_out {
        0 => {}
        1 => lines.push("1 file was not looked at: there was no room or no time".to_owned()),
        count => lines.push(format!(
            "{count} files were not looked at: there was no room or no time"
        )),
    }
    lines
}
