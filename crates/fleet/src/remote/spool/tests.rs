#![expect(
    clippy::disallowed_methods,
    reason = "tests spoil files as anybody could"
)]
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn token_owner(project: &str, token: &str) -> TokenOwner {
    TokenOwner {
        project: project.to_owned(),
        token: token.to_owned(),
    }
}

fn entry(key: &str, agent: Option<&str>) -> SpooledRequest {
    let caller = Caller {
        agent: agent.map(str::to_owned),
        ..Caller::default()
    };
    let request = r#"{"text":"the key is AKIAIOSFODNN7EXAMPLE"}"#;
    let place = ("http://localhost", &token_owner("prj-a", "tok-a"));
    let at = Time::from_millis(0);
    SpooledRequest::new(key, place, at, ("add_note", request), &caller)
}

fn spool(temp: &tempfile::TempDir) -> Spool {
    Spool::of(Some(temp.path()), Path::new("/repository"))
}

fn keys(kept: &SpoolContents) -> Vec<&str> {
    let keys = kept.entries.iter().map(|entry| entry.key.as_str());
    keys.collect()
}

#[test]
fn what_is_kept_comes_back_in_order_and_without_secrets() {
    let temp = tempfile::tempdir().unwrap();
    let spool = spool(&temp);
    for key in ["a", "b", "c"] {
        let queue = spool.take("ada").unwrap();
        queue.push(&entry(key, Some("ada"))).unwrap();
    }
    let queue = spool.take("ada").unwrap();
    let (kept, damaged) = queue.kept().unwrap();
    assert!(damaged.is_none());
    assert_eq!(keys(&kept), ["a", "b", "c"]);
    let text = fs::read_to_string(queue.file()).unwrap();
    assert!(!text.contains("AKIAIOSFODNN7EXAMPLE"), "{text}");
    queue.replace(&kept.entries[1..], &[]).unwrap();
    drop(queue);
    assert_eq!(spool.waiting(None)[0].count, 2);
    assert_eq!(spool.queues(), ["ada"]);
    let other = Spool::of(Some(temp.path()), Path::new("/other"));
    assert_eq!(other.queues(), Vec::<String>::new());
}

#[test]
fn a_line_that_is_none_is_put_aside_and_stops_no_other() {
    let temp = tempfile::tempdir().unwrap();
    let spool = spool(&temp);
    let queue = spool.take("ada").unwrap();
    queue.push(&entry("a", None)).unwrap();
    let mut text = fs::read_to_string(queue.file()).unwrap();
    // Cut short in the middle of a line, as by a full disk.
    text.push_str("{\"v\":1,\"key\":\"ha");
    fs::write(queue.file(), text).unwrap();
    assert_eq!(queue.push(&entry("b", None)).unwrap(), 2);
    let (kept, damaged) = queue.kept().unwrap();
    assert_eq!(kept.entries.len(), 2);
    assert!(damaged.is_none(), "it was put aside before");
    let aside = fs::read_to_string(&spool.damaged()[0]).unwrap();
    assert_eq!(aside, "{\"v\":1,\"key\":\"ha\n");
}

#[test]
fn what_another_version_wrote_stays_and_so_does_all_after_it() {
    let ours = serde_json::to_value(entry("b", None)).unwrap();
    let (mut newer, mut wider) = (ours.clone(), ours);
    newer["v"] = 99.into();
    wider["colour"] = "red".into();
    for line in [newer.to_string(), wider.to_string()] {
        let temp = tempfile::tempdir().unwrap();
        let spool = spool(&temp);
        let queue = spool.take("ada").unwrap();
        queue.push(&entry("a", None)).unwrap();
        append(queue.file(), &line).unwrap();
        assert_eq!(queue.push(&entry("c", None)).unwrap(), 3);
        let (kept, damaged) = queue.kept().unwrap();
        assert_eq!(keys(&kept), ["a"]);
        assert!(damaged.is_none() && spool.damaged().is_empty());
        queue.replace(&kept.entries[1..], &kept.rest).unwrap();
        let left = fs::read_to_string(queue.file()).unwrap();
        assert!(left.starts_with(&line), "{left}");
        assert_eq!(spool.waiting(None)[0].count, 2);
    }
}

#[test]
fn a_queue_that_would_be_too_large_takes_no_more() {
    let temp = tempfile::tempdir().unwrap();
    let spool = Spool {
        largest: 800,
        ..spool(&temp)
    };
    let queue = spool.take("ada").unwrap();
    let mut taken = 0;
    while queue.push(&entry("a", None)).is_ok() {
        taken += 1;
        assert!(taken < 10, "it has an end");
    }
    assert!(taken > 0);
    assert_eq!(queue.kept().unwrap().0.entries.len(), taken);
}

#[test]
fn a_folder_that_is_not_the_users_alone_is_not_used() {
    let temp = tempfile::tempdir().unwrap();
    let (elsewhere, state) = (temp.path().join("elsewhere"), temp.path().join("state"));
    let spool = |state: &Path| Spool::of(Some(state), Path::new("/repository"));
    let there = spool(&elsewhere);
    let queue = there.take("ada").unwrap();
    queue.push(&entry("a", None)).unwrap();
    fs::create_dir(&state).unwrap();
    symlink(elsewhere.join("flightline"), state.join("flightline")).unwrap();
    let linked = spool(&state);
    assert_eq!(linked.take("ada").err().unwrap().code, Code::Unavailable);
    assert!(linked.queues().is_empty() && linked.waiting(None).is_empty());
    let open = fs::Permissions::from_mode(0o770);
    fs::set_permissions(queue.file().parent().unwrap(), open).unwrap();
    assert_eq!(there.take("bob").err().unwrap().code, Code::Unavailable);
    assert!(there.queues().is_empty());
}

#[test]
fn a_link_in_the_place_of_a_queue_is_not_followed() {
    let temp = tempfile::tempdir().unwrap();
    let spool = spool(&temp);
    let queue = spool.take("ada").unwrap();
    queue.push(&entry("a", None)).unwrap();
    let elsewhere = temp.path().join("elsewhere");
    fs::rename(queue.file(), &elsewhere).unwrap();
    symlink(&elsewhere, queue.file()).unwrap();
    assert!(queue.kept().is_err());
    assert!(queue.push(&entry("b", None)).is_err());
}

#[test]
fn every_name_has_a_file_of_its_own() {
    let a = token_owner("prj-a", "tok-a");
    let name = |agent| Spool::name_at_any(Some(agent), Some(&a));
    assert_eq!(name("Specialist-2"), "Specialist-2@prj-a");
    assert_eq!(name("../x"), "%2E%2E%2Fx@prj-a");
    assert_ne!(name("a/b"), name("a_b"));
    assert_ne!(name("-"), Spool::name_at_any(None, Some(&a)));
    assert!(name(&"é".repeat(100)).len() < 200);
    let b = token_owner("prj-a", "tok-b");
    assert_ne!(
        Spool::name_at_any(None, Some(&a)),
        Spool::name_at_any(None, Some(&b))
    );
    let at = |server| Spool::name_of(Some("ada"), Some(&a), server);
    assert_eq!(at("http://localhost"), "ada@prj-a@8605b8ba08c2");
    assert_ne!(at("http://localhost"), at("http://localhost:1"));
}

#[test]
fn what_an_older_version_kept_for_all_servers_is_sorted_by_server() {
    let temp = tempfile::tempdir().unwrap();
    let spool = spool(&temp);
    let a = token_owner("prj-a", "tok-a");
    let old = Spool::name_at_any(Some("ada"), Some(&a));
    let elsewhere = |key| SpooledRequest {
        server: "http://elsewhere".to_owned(),
        ..entry(key, Some("ada"))
    };
    let queue = spool.take(&old).unwrap();
    for entry in [
        entry("a", Some("ada")),
        elsewhere("b"),
        entry("c", Some("ada")),
        elsewhere("d"),
    ] {
        queue.push(&entry).unwrap();
    }
    let text = fs::read_to_string(queue.file()).unwrap();
    let file = queue.file().to_owned();
    drop(queue);
    let of = |server| Spool::name_of(Some("ada"), Some(&a), server);
    let (here, there) = (of("http://localhost"), of("http://elsewhere"));
    let kept = |name: &str| {
        let (kept, _) = spool.take(name).unwrap().kept().unwrap();
        keys(&kept).join(" ")
    };
    // A process that died half-way does it again, and nothing is there twice.
    for _ in 0..2 {
        spool.sort(&here).unwrap();
        assert!(!spool.has(&old));
        assert_eq!(
            (kept(&here), kept(&there)),
            ("a c".to_owned(), "b d".to_owned())
        );
        fs::write(&file, &text).unwrap();
    }
    spool.sort(&here).unwrap();
    let waiting = spool.waiting(Some(&a));
    let servers: Vec<_> = waiting
        .iter()
        .map(|of| (of.server.as_deref().unwrap(), of.count))
        .collect();
    assert_eq!(servers.len(), 2);
    assert!(servers.contains(&("http://elsewhere", 2)), "{servers:?}");
    assert!(waiting.iter().all(|of| fs::metadata(&of.file).is_ok()));
}

#[test]
fn what_a_person_said_needs_the_same_token_and_what_an_agent_said_the_project() {
    let (person, agent) = (entry("a", None), entry("a", Some("ada")));
    for (of, by_person, by_agent) in [
        (token_owner("prj-a", "tok-a"), true, true),
        (token_owner("prj-a", "tok-b"), false, true),
        (token_owner("prj-b", "tok-a"), false, false),
    ] {
        assert_eq!((person.fits(&of), agent.fits(&of)), (by_person, by_agent));
    }
}
