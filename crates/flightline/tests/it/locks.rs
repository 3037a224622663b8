//! Locks, on both engines: at most one live grant per path, and fences that only grow.

use expect_test::expect;
use flightline::lock::CheckLocks;
use flightline_testkit::prelude::*;

fn renew(
    story: &Story<'_>,
    agent: &str,
    lock: &str,
    fence: Option<u64>,
) -> Result<Vec<LockView>, Refusal> {
    let renew = RenewLocks {
        locks: vec![lock.to_owned()],
        fence,
        ttl_ms: None,
    };
    story.run(agent, &renew)
}

fn release(
    story: &Story<'_>,
    agent: &str,
    lock: &str,
    fence: Option<u64>,
) -> Result<Vec<LockView>, Refusal> {
    let release = ReleaseLocks {
        locks: vec![lock.to_owned()],
        all: false,
        fence,
    };
    story.run(agent, &release)
}

fn steal(story: &Story<'_>, agent: &str, file: &str) -> Result<Vec<LockView>, Refusal> {
    let steal = StealLock {
        path: path(file),
        reason: note("the build is red"),
    };
    story.run(agent, &steal)
}

fn fence(granted: &[LockView]) -> u64 {
    granted[0].lock.fence
}

both_engines! {
    fn a_path_has_one_holder(world: &World) {
        let story = Story::new(world);
        let granted = story.lock("ada", &["src/auth.rs"]).unwrap();
        assert_eq!((granted[0].holder.as_str(), granted[0].remaining_ms), ("ada", 30 * 60_000));
        story.pass_minutes(2);
        let refused = story.lock("bob", &["./src//auth.rs"]).unwrap_err();
        assert_eq!((refused.code, refused.retryable), (Code::LockHeld, true));
        assert_eq!(refused.message, "`src/auth.rs` is locked by ada (last sign 2m ago)");
        assert_eq!(
            (&refused.details["holder"], &refused.details["fence"]),
            (&"ada".into(), &fence(&granted).into())
        );
        assert!(story.damaged_values().is_empty());
    }

    fn folders_and_files_overlap_both_ways(world: &World) {
        let story = Story::new(world);
        story.lock("ada", &["src/auth"]).unwrap();
        for overlapping in ["src", "src/auth/login.rs", "."] {
            let refused = story.lock("bob", &[overlapping]).unwrap_err();
            assert_eq!(refused.code, Code::LockHeld, "{overlapping}");
            assert!(
                refused.message.starts_with(&format!(
                    "`{overlapping}` overlaps `src/auth`, locked by ada"
                )),
                "{}",
                refused.message
            );
        }
        for apart in ["src/authority", "src/aut", "SRC/auth", "src-auth"] {
            story.lock("bob", &[apart]).unwrap();
        }
    }

    fn patterns_overlap_what_they_can_match(world: &World) {
        let story = Story::new(world);
        story.lock("ada", &["src/**/*.rs", "docs/[a-m]*"]).unwrap();
        for overlapping in ["src/a.rs", "src", "src/x/y.rs", "src/?.*", "docs/b", "docs/*/deep", "**"] {
            let refused = story.lock("bob", &[overlapping]).unwrap_err();
            assert_eq!(refused.code, Code::LockHeld, "{overlapping}");
        }
        let check = CheckLocks { paths: vec![path("src/new.rs"), path("src/new.ts")] };
        let checked = story.run("bob", &check).unwrap();
        assert_eq!((checked[0].free, checked[1].free), (false, true));
        story.lock("bob", &["src/*.ts", "docs/z"]).unwrap();
        // Its own do not stand in its way, and are others.
        story.lock("ada", &["src/a.rs"]).unwrap();
        assert_eq!(steal(&story, "bob", "src/a*").unwrap().len(), 1);
        let left = story.run("", &ListLocks { agent: Some("ada".to_owned()) }).unwrap();
        assert_eq!(left.iter().map(|view| view.lock.file.as_str()).collect::<Vec<_>>(), ["docs/[a-m]*"]);
        assert!(story.damaged_values().is_empty());
    }

    fn a_sortie_is_not_ready_while_another_holds_a_pattern_of_its_files(world: &World) {
        let story = Story::new(world);
        story.mission("Work", &["Model"]);
        let id = story.sortie_id("Model");
        story.lock("ada", &["src/*.rs"]).unwrap();
        let add = AddSorties {
            mission: None,
            sorties: vec![NewSortie {
                files: vec![path("src/a.rs")],
                priority: 9,
                ..flightline::sortie::add::NewSortie::titled(title("First of all"))
            }],
        };
        story.run("", &add).unwrap();
        let next = claim_next();
        assert_eq!(story.run("bob", &next).unwrap().sortie.id.to_string(), id);
        assert_eq!(story.run("bob", &next).unwrap_err().details["locked"], 1);
    }

    fn several_locks_are_taken_together_or_not_at_all(world: &World) {
        let story = Story::new(world);
        story.lock("ada", &["c.rs"]).unwrap();
        let refused = story.lock("bob", &["a.rs", "b.rs", "c.rs"]).unwrap_err();
        assert_eq!(refused.code, Code::LockHeld);
        expect!["lock c.rs ada\n"].assert_eq(&story.as_text());
        story.lock("bob", &["a.rs", "b.rs"]).unwrap();
        expect![[r"
            lock c.rs ada
            lock a.rs bob
            lock b.rs bob
        "]]
        .assert_eq(&story.as_text());
        assert_eq!(story.lock("bob", &[]).unwrap_err().message, "no path to lock was given");
        let twice = story.lock("bob", &["d.rs", "./d.rs"]).unwrap();
        assert_eq!(twice.len(), 1, "a path named twice is one lock");
    }

    fn a_holder_takes_its_lock_anew_with_a_larger_fence(world: &World) {
        let story = Story::new(world);
        let first = story.lock("ada", &["a.rs"]).unwrap();
        let second = story.lock("ada", &["a.rs"]).unwrap();
        assert!(fence(&second) > fence(&first));
        assert_eq!(second[0].lock.id, first[0].lock.id);
        story.lock("ada", &["."]).unwrap();
        assert_eq!(
            story.run("", &ListLocks { agent: None }).unwrap().len(),
            2,
            "her own locks may overlap"
        );
        assert!(story.damaged_values().is_empty());
    }

    fn fences_grow_over_all_paths_and_agents(world: &World) {
        let story = Story::new(world);
        let mut fences = Vec::new();
        for round in 0..3 {
            for (agent, file) in [("ada", "a.rs"), ("bob", "b.rs"), ("ada", "c.rs")] {
                fences.push(fence(&story.lock(agent, &[file]).unwrap()));
            }
            story.run("ada", &release_all()).unwrap();
            if round == 1 {
                fences.push(fence(&steal(&story, "eve", "b.rs").unwrap()));
                release(&story, "eve", "b.rs", None).unwrap();
            }
        }
        assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    }

    fn a_stale_fence_neither_renews_nor_releases(world: &World) {
        let story = Story::new(world);
        let stale = fence(&story.lock("ada", &["a.rs"]).unwrap());
        let current = fence(&story.lock("ada", &["a.rs"]).unwrap());
        let refused = renew(&story, "ada", "a.rs", Some(stale)).unwrap_err();
        assert_eq!(
            (refused.code, refused.message),
            (
                Code::Fenced,
                format!("fence {stale} on `a.rs` is void: the current one is {current}")
            )
        );
        assert_eq!(release(&story, "ada", "a.rs", Some(stale)).unwrap_err().code, Code::Fenced);
        renew(&story, "ada", "a.rs", Some(current)).unwrap();
        release(&story, "ada", "a.rs", Some(current)).unwrap();
        assert_eq!(renew(&story, "ada", "a.rs", Some(current)).unwrap_err().code, Code::NotFound);
    }

    fn only_its_holder_renews_or_releases_a_lock(world: &World) {
        let story = Story::new(world);
        let fence = fence(&story.lock("ada", &["a.rs"]).unwrap());
        for refused in
            [renew(&story, "bob", "a.rs", Some(fence)), release(&story, "bob", "a.rs", Some(fence))]
        {
            let refused = refused.unwrap_err();
            assert_eq!(
                (refused.code, refused.message.as_str()),
                (Code::Fenced, "the lock on `a.rs` is ada's")
            );
        }
        assert_eq!(
            release(&story, "", "a.rs", None).unwrap_err().code,
            Code::InvalidInput,
            "a person holds no locks"
        );
    }

    fn renewing_keeps_the_fence_and_may_change_the_time_to_live(world: &World) {
        let story = Story::new(world);
        let granted = story.lock("ada", &["a.rs"]).unwrap();
        let longer = RenewLocks {
            locks: vec![granted[0].lock.id.to_string()],
            fence: None,
            ttl_ms: Some(7_200_000),
        };
        let renewed = story.run("ada", &longer).unwrap();
        assert_eq!((fence(&renewed), renewed[0].lock.timeout_ms), (fence(&granted), 7_200_000));
        for wrong in [0, 999, 7 * 86_400_000 + 1] {
            let request = AcquireLocks { ttl_ms: Some(wrong), ..locks_on(&["b.rs"]) };
            assert_eq!(story.run("ada", &request).unwrap_err().code, Code::InvalidInput, "{wrong}");
            let request =
                RenewLocks { locks: vec!["a.rs".to_owned()], fence: None, ttl_ms: Some(wrong) };
            assert_eq!(story.run("ada", &request).unwrap_err().code, Code::InvalidInput, "{wrong}");
        }
    }

    fn a_lock_of_an_earlier_epoch_is_taken_anew_and_not_renewed(world: &World) {
        let story = Story::new(world);
        let old = fence(&story.lock("ada", &["a.rs"]).unwrap());
        story.run("", &registration("ada")).unwrap();
        let refused = renew(&story, "ada", "a.rs", None).unwrap_err();
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (Code::Fenced, "the lock on `a.rs` was granted to epoch 1 of ada, which is over")
        );
        assert_eq!(
            story.lock("bob", &["a.rs"]).unwrap_err().code,
            Code::LockHeld,
            "it is still ada's"
        );
        let anew = story.lock("ada", &["a.rs"]).unwrap();
        assert!(fence(&anew) > old);
        assert_eq!(anew[0].lock.epoch, 2);
        renew(&story, "ada", "a.rs", Some(fence(&anew))).unwrap();
    }

    fn everything_is_released_at_once(world: &World) {
        let story = Story::new(world);
        story.lock("ada", &["a.rs", "b.rs"]).unwrap();
        story.lock("bob", &["c.rs"]).unwrap();
        let all = release_all();
        assert_eq!(story.run("ada", &all).unwrap().len(), 2);
        assert_eq!(story.run("ada", &all).unwrap().len(), 0, "nothing left, and no harm done");
        expect!["lock c.rs bob\n"].assert_eq(&story.as_text());
        let none = ReleaseLocks { locks: vec![], all: false, fence: None };
        assert_eq!(story.run("bob", &none).unwrap_err().code, Code::InvalidInput);
        let one_of_two = ReleaseLocks {
            locks: vec!["c.rs".to_owned(), "d.rs".to_owned()],
            all: false,
            fence: None,
        };
        assert_eq!(story.run("bob", &one_of_two).unwrap_err().code, Code::NotFound);
        expect!["lock c.rs bob\n"].assert_eq(&story.as_text());
    }

    fn stealing_needs_a_reason_and_tells_the_holder(world: &World) {
        let story = Story::new(world);
        let void = fence(&story.lock("ada", &["src/a.rs"]).unwrap());
        story.lock("bob", &["src/b.rs"]).unwrap();
        let no_reason = serde_json::json!({ "path": "src", "reason": " " });
        assert!(serde_json::from_value::<StealLock>(no_reason).is_err());
        let taken = steal(&story, "eve", "src").unwrap();
        assert!(fence(&taken) > void);
        let inbox = story.run("ada", &open_inbox(10)).unwrap();
        let told = &inbox[0].message;
        assert_eq!(
            (told.from.as_str(), told.subject.as_str()),
            ("flightline", "Your lock on src/a.rs was taken")
        );
        assert_eq!(told.body.as_deref(), Some(format!("eve took it: the build is red. Stop writing there; its fence {void} is void.").as_str()));
        assert_eq!(
            renew(&story, "ada", "src/a.rs", Some(void))
                .unwrap_err()
                .code,
            Code::NotFound
        );
        assert_eq!(
            story.lock("ada", &["src/a.rs"]).unwrap_err().code,
            Code::LockHeld
        );
        expect![[r#"
            lock src eve
            mail flightline "Your lock on src/a.rs was taken"
              to ada delivered
            mail flightline "Your lock on src/b.rs was taken"
              to bob pending
        "#]]
        .assert_eq(&story.as_text());
    }

    fn there_must_be_something_to_steal(world: &World) {
        let story = Story::new(world);
        story.lock("eve", &["a.rs"]).unwrap();
        let refused = steal(&story, "eve", "a.rs").unwrap_err();
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (Code::NotFound, "no other agent holds a lock on `a.rs`")
        );
        assert_eq!(steal(&story, "", "a.rs").unwrap_err().code, Code::InvalidInput);
    }

    fn a_lock_belongs_to_the_one_sortie_its_holder_is_at(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["One", "Two"]);
        let at_none = story.lock("ada", &["a.rs"]).unwrap();
        assert_eq!(at_none[0].lock.sortie_id, None);
        let one = story.claim("ada", "One").unwrap().sortie;
        let at_one = story.lock("ada", &["b.rs"]).unwrap();
        assert_eq!(
            (at_one[0].lock.sortie_id, at_one[0].lock.mission_id),
            (Some(one.id), Some(one.mission_id))
        );
        story.claim("ada", "Two").unwrap();
        assert_eq!(
            story.lock("ada", &["c.rs"]).unwrap()[0].lock.sortie_id,
            None,
            "it could be either"
        );
        let named = AcquireLocks {
            sortie: Some(story.sortie_id("Two")),
            purpose: Some(title("refactor")),
            ..locks_on(&["d.rs"])
        };
        story.run("ada", &named).unwrap();
        let refused = story.lock("bob", &["d.rs"]).unwrap_err();
        assert!(
            refused.message.contains(&story.sortie_id("Two")[..12])
                && refused.message.contains("\"refactor\""),
            "{}",
            refused.message
        );
    }

    fn checking_says_what_is_in_the_way_and_whose_it_is(world: &World) {
        let story = Story::new(world);
        story.lock("ada", &["src"]).unwrap();
        let check = |agent: &str| {
            let checks = story
                .run(agent, &CheckLocks { paths: vec![path("src/a.rs"), path("docs")] })
                .unwrap();
            checks
                .into_iter()
                .map(|check| (check.free, check.lock.map(|lock| lock.holder)))
                .collect::<Vec<_>>()
        };
        assert_eq!(check("bob"), [(false, Some("ada".to_owned())), (true, None)]);
        assert_eq!(
            check("ada"),
            [(true, Some("ada".to_owned())), (true, None)],
            "her own is not in her way"
        );
        assert_eq!(check(""), [(false, Some("ada".to_owned())), (true, None)]);
    }

    fn locks_are_listed_by_holder(world: &World) {
        let story = Story::new(world);
        story.lock("ada", &["a.rs"]).unwrap();
        story.lock("bob", &["b.rs"]).unwrap();
        let of = |agent: Option<&str>| {
            let listed = story.run("", &ListLocks { agent: agent.map(str::to_owned) }).unwrap();
            listed.into_iter().map(|view| view.lock.file.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            (of(None), of(Some("bob"))),
            (vec!["a.rs".to_owned(), "b.rs".to_owned()], vec!["b.rs".to_owned()])
        );
        assert_eq!(
            story.run("", &ListLocks { agent: Some("eve".to_owned()) }).unwrap_err().code,
            Code::NotFound
        );
    }

    fn a_session_that_registers_again_keeps_its_locks_and_fences(world: &World) {
        let story = Story::new(world);
        let same = RegisterAgent { session: Some(title("s-1")), ..registration("ada") };
        story.run("", &same).unwrap();
        let granted = story.lock("ada", &["a.rs"]).unwrap();
        story.run("", &same).unwrap();
        renew(&story, "ada", "a.rs", Some(fence(&granted))).unwrap();
    }

    fn a_name_in_two_spellings_is_one_lock(world: &World) {
        let story = Story::new(world);
        let (one, two) = ("caf\u{e9}/a.rs", "cafe\u{301}/a.rs");
        story.lock("ada", &[one]).unwrap();
        assert_eq!(story.lock("bob", &[two]).unwrap_err().code, Code::LockHeld);
        story.lock("ada", &[two]).unwrap();
        assert_eq!(story.all::<Lock>().len(), 1, "taken again, not twice");
        let release = ReleaseLocks { locks: vec![one.to_owned()], all: false, fence: None };
        story.run("ada", &release).unwrap();
        story.lock("bob", &[one]).unwrap();
    }
}
