//! Settings files of all kinds, through install and removal.

mod after;
mod corpus;
mod malformed;

use crate::Client;

use super::*;

const BINARY: &str = "/usr/local/bin/fleet";

/// A place of every kind that a client has: those for a person and for a project are edited alike.
fn everywhere() -> Vec<SetupFile> {
    let mut all: Vec<SetupFile> = Vec::new();
    let places = Client::ALL.into_iter().flat_map(|client| {
        [SetupScope::User, SetupScope::Project]
            .into_iter()
            .flat_map(move |scope| places(client, scope))
    });
    for place in places {
        let known = |it: &SetupFile| it.client == place.client && it.kind == place.kind;
        if !all.iter().any(known) {
            all.push(place);
        }
    }
    all
}

fn place(client: Client, end: &str) -> SetupFile {
    places(client, SetupScope::User)
        .into_iter()
        .find(|it| it.path.ends_with(end))
        .unwrap()
}

/// The texts of the corpus that a place may hold.
fn texts(place: &SetupFile) -> Vec<&'static str> {
    match place.kind {
        SettingsFormat::Json(_) => corpus::JSON.to_vec(),
        SettingsFormat::Toml => corpus::TOML.to_vec(),
        SettingsFormat::Markdown => corpus::MARKDOWN.to_vec(),
        SettingsFormat::File(_) => Vec::new(),
    }
}

#[test]
fn a_removal_gives_back_every_byte() {
    let mut runs = 0;
    for place in everywhere() {
        let befores = texts(&place).into_iter().map(Some).chain([None]);
        for before in befores {
            let label = format!("{} {}: {before:?}", place.client, place.path);
            let first = install(&place, before, None, BINARY).expect(&label);
            assert!(installed(&place, &first.text).unwrap(), "{label}");
            let again = install(&place, Some(&first.text), first.undo.as_ref(), BINARY).unwrap();
            assert_eq!(again.text, first.text, "{label}");
            for undo in [&first.undo, &again.undo] {
                let back = remove(&place, &first.text, undo.as_ref()).unwrap();
                assert_eq!(back.as_deref(), before, "{label}");
            }
            runs += 1;
        }
    }
    assert!(runs > 400, "{runs}");
}

#[test]
fn the_second_install_changes_nothing() {
    for place in everywhere() {
        for before in texts(&place) {
            let first = install(&place, Some(before), None, BINARY).unwrap();
            let second = install(&place, Some(&first.text), None, BINARY).unwrap();
            assert_eq!(second.text, first.text);
            assert_eq!(second.undo, None);
        }
    }
}

#[test]
fn another_program_is_put_in_place_and_the_way_back_stays() {
    let other = "/opt/My Tools/fleet";
    for place in everywhere() {
        for before in texts(&place).into_iter().map(Some).chain([None]) {
            let label = format!("{} {}: {before:?}", place.client, place.path);
            let old = install(&place, before, None, other).unwrap();
            let new = install(&place, Some(&old.text), old.undo.as_ref(), BINARY).unwrap();
            assert!(!new.text.contains("My Tools"), "{label}\n{}", new.text);
            let fresh = install(&place, before, None, BINARY).unwrap();
            assert_eq!(new.text, fresh.text, "{label}");
            let back = remove(&place, &new.text, new.undo.as_ref()).unwrap();
            assert_eq!(back.as_deref(), before, "{label}");
        }
    }
}

#[test]
fn without_the_way_back_only_ours_go() {
    for place in everywhere() {
        for before in texts(&place) {
            let label = format!("{} {}: {before:?}", place.client, place.path);
            let change = install(&place, Some(before), None, BINARY).unwrap();
            let back = remove(&place, &change.text, None).unwrap();
            let text = back.unwrap_or_default();
            assert!(!installed(&place, &text).unwrap(), "{label}\n{text}");
            // Once more there is nothing to take.
            if !text.is_empty() {
                let once_more = remove(&place, &text, None).unwrap();
                assert_eq!(once_more.as_deref(), Some(text.as_str()), "{label}");
            }
        }
    }
}
