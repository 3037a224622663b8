//! The files of the other systems: taken in, given out, and kept up to date, on both engines.

mod arrivals;
mod epic;
mod tasks;
mod tokens;

use std::fs;
use std::path::PathBuf;

use flightline::core::dialect::{Dialect, Json};
use flightline::dialect::{ExportDocuments, ImportDocuments, ImportedDocument, Incoming};
use flightline::mirror::{MirrorNotice, Mirrors, take_in, write_out};
use flightline_testkit::prelude::*;

fn import(story: &Story<'_>, dialect: Dialect, file: &str, text: &str) -> ImportedDocument {
    try_import(story, dialect, file, text).unwrap()
}

fn try_import(
    story: &Story<'_>,
    dialect: Dialect,
    file: &str,
    text: &str,
) -> Result<ImportedDocument, Refusal> {
    let request = ImportDocuments {
        dialect,
        documents: vec![Incoming {
            file: file.to_owned(),
            text: text.to_owned(),
            before: None,
            even_if_older: false,
        }],
        mission: None,
    };
    story.run("", &request).map(|mut taken| taken.remove(0))
}

fn export(story: &Story<'_>, dialect: Dialect) -> Vec<(String, String)> {
    let request = ExportDocuments {
        dialect,
        mission: None,
        since: None,
        ended_since: None,
    };
    let given = story.run("", &request).unwrap();
    let documents = given.documents.into_iter();
    documents
        .map(|document| (document.file, document.text))
        .collect()
}

pub fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

/// What a command does: takes in, then writes out.
pub fn pass(story: &Story<'_>, mirrors: &Mirrors) -> Vec<MirrorNotice> {
    story.with_fleet(|fleet| {
        let mut said = take_in(fleet, mirrors, &caller("")).unwrap();
        said.extend(write_out(fleet, mirrors, &caller("")).unwrap());
        said
    })
}

/// The mirror of one dialect, in the world's own folder.
struct Mirror<'s, 'w> {
    story: &'s Story<'w>,
    mirrors: Mirrors,
}

impl<'s, 'w> Mirror<'s, 'w> {
    fn new(story: &'s Story<'w>, dialect: Dialect) -> Self {
        let root = story.world.folder().join("work");
        fs::create_dir_all(&root).unwrap();
        Self {
            story,
            mirrors: Mirrors {
                state: root.join(".state"),
                root,
                inside: PathBuf::new(),
                dialects: vec![dialect],
            },
        }
    }

    fn pass(&self) -> Vec<MirrorNotice> {
        pass(self.story, &self.mirrors)
    }

    /// Nobody writes for a while: the files are looked at once and left alone, and then time passes.
    fn settle(&self) {
        let said = self.pass();
        let aside = |said: &MirrorNotice| matches!(said, MirrorNotice::Trouble(said) if said.contains(".conflict"));
        assert!(
            !said.iter().any(aside),
            "what may be being written is left alone: {said:?}"
        );
        self.story.pass_minutes(1);
    }

    fn path(&self, file: &str) -> PathBuf {
        self.mirrors.root.join(file)
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap()
    }

    fn write(&self, file: &str, text: &str) {
        fs::create_dir_all(self.path(file).parent().unwrap()).unwrap();
        fs::write(self.path(file), text).unwrap();
    }

    fn files(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(folder)) else {
            return Vec::new();
        };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}
