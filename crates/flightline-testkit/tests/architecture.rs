//! The house: what ARCHITECTURE.md promises and a machine can check.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests make, read and spoil files as anybody could"
)]

#[path = "architecture/descriptions.rs"]
mod descriptions;
#[path = "architecture/pages.rs"]
mod pages;
#[path = "architecture/source.rs"]
mod source;

use std::fs;

use descriptions::look;
use pages::{RINGS, anchor, is_an_example, pages, quoted};
use serde_json::Value;
use source::{code, crates, declared_type, dependencies, ours, rust_files};

#[test]
fn crates_depend_one_way() {
    for (name, allowed) in [
        ("flightline-schema", vec![]),
        ("flightline-core", vec!["flightline-schema"]),
        (
            "flightline-store",
            vec!["flightline-core", "flightline-workspace"],
        ),
        ("flightline-workspace", vec!["flightline-core"]),
        ("flightline-clients", vec![]),
        (
            "flightline",
            vec![
                "flightline-core",
                "flightline-schema",
                "flightline-store",
                "flightline-workspace",
            ],
        ),
        ("flightline-mcp", vec!["flightline"]),
        (
            "flightline-server",
            vec!["flightline", "flightline-mcp", "flightline-schema"],
        ),
        (
            "fleet",
            vec![
                "flightline",
                "flightline-clients",
                "flightline-mcp",
                "flightline-server",
            ],
        ),
        ("flightline-testkit", vec!["flightline"]),
    ] {
        assert_eq!(ours(name), allowed, "{name}");
    }
    let rooms = fs::read_dir(crates()).unwrap().count();
    assert_eq!(
        rooms, 10,
        "a new crate needs a place in ARCHITECTURE.md and here"
    );
}

#[test]
fn the_core_is_pure() {
    let foreign = [
        "std::fs",
        "std::env",
        "std::net",
        "std::process",
        "std::thread",
        "SystemTime",
        "Instant",
        "rusqlite",
        "postgres::",
        "new_v4",
    ];
    for path in rust_files(&crates().join("flightline-core/src")) {
        let code = code(&path);
        for word in foreign {
            assert!(!code.contains(word), "{} uses {word}", path.display());
        }
        // The one state of a thread: docs/design/decisions/033-stored-texts-are-read-as-they-are.md.
        assert_eq!(
            code.contains("thread_local!"),
            path.ends_with("text.rs") || path.ends_with("count.rs"),
            "{}",
            path.display()
        );
    }
}

#[test]
fn sql_stands_in_the_store_alone() {
    let sql = [
        "SELECT ",
        "INSERT INTO ",
        "DELETE FROM ",
        "CREATE TABLE ",
        "rusqlite",
    ];
    for room in fs::read_dir(crates()).unwrap() {
        let room = room.unwrap().path();
        if room.ends_with("flightline-store") || room.ends_with("flightline-testkit") {
            continue;
        }
        let name = room.file_name().unwrap().to_str().unwrap();
        for driver in ["rusqlite", "postgres"] {
            let depends = dependencies(name).contains(&driver.to_owned());
            assert!(!depends, "{name} depends on {driver}");
        }
        for path in rust_files(&room.join("src")) {
            let code = code(&path);
            for word in sql {
                assert!(!code.contains(word), "{} has {word:?}", path.display());
            }
        }
    }
}

#[test]
fn only_the_server_and_mcp_may_be_async() {
    for name in [
        "flightline-core",
        "flightline-store",
        "flightline-workspace",
        "flightline-clients",
        "flightline",
        "fleet",
    ] {
        for library in ["tokio", "axum", "hyper", "hyper-util", "rmcp"] {
            assert!(
                !dependencies(name).contains(&library.to_owned()),
                "{name} depends on {library}"
            );
        }
        for path in rust_files(&crates().join(name).join("src")) {
            assert!(
                !code(&path).contains("async fn"),
                "{} is async",
                path.display()
            );
        }
    }
}

#[test]
fn the_server_opens_a_fleet_on_its_own_threads_only() {
    let server = crates().join("flightline-server/src");
    for path in rust_files(&server) {
        let code = code(&path);
        let opens = code.contains("Store::open(") || code.contains("Store::create(");
        assert!(
            !opens || path.ends_with("workers.rs"),
            "{} opens a store",
            path.display()
        );
        // Reading a large body keeps a thread busy, and touches no store.
        let code = code.replace("spawn_blocking(move || entry.read(&body))", "");
        assert!(
            !code.contains("spawn_blocking") && !code.contains("block_in_place"),
            "{} works on a thread of the runtime",
            path.display()
        );
    }
}

#[test]
fn mcp_knows_no_store() {
    for path in rust_files(&crates().join("flightline-mcp/src")) {
        let code = code(&path);
        for word in [
            "flightline::store",
            "flightline::workspace",
            "flightline::Fleet",
        ] {
            assert!(!code.contains(word), "{} uses {word}", path.display());
        }
    }
}

#[test]
fn a_front_end_opens_no_transaction() {
    for name in ["fleet", "flightline-server", "flightline-mcp"] {
        for path in rust_files(&crates().join(name).join("src")) {
            let code = code(&path);
            for word in [".read(|tx|", ".write(|"] {
                let is_test = path.ends_with("tests.rs");
                assert!(
                    is_test || !code.contains(word),
                    "{} has {word}",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn only_the_ui_prints_and_only_the_config_reads_the_environment() {
    for path in rust_files(&crates()) {
        let (text, shown) = (code(&path), path.display().to_string());
        let is_test = shown.contains("testkit") || shown.ends_with("/tests.rs");
        if !shown.contains("/src/") || is_test {
            continue;
        }
        if !shown.ends_with("fleet/src/ui.rs") {
            for word in ["println!", "print!(", "io::stdout()", "anstream::stdout"] {
                assert!(!text.contains(word), "{shown} prints with {word}");
            }
        }
        if !shown.ends_with("fleet/src/config.rs") {
            for word in ["env::var(", "env::var_os(", "env::vars"] {
                assert!(!text.contains(word), "{shown} reads the environment");
            }
        }
    }
}

#[test]
fn every_crate_keeps_the_lints() {
    for entry in fs::read_dir(crates()).unwrap() {
        let manifest = entry.unwrap().path().join("Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        assert!(
            text.contains("[lints]\nworkspace = true"),
            "{}",
            manifest.display()
        );
    }
    for path in rust_files(&crates()) {
        let text = fs::read_to_string(&path).unwrap();
        let silences = |line: &str| line.starts_with("#[allow(") || line.starts_with("#![allow(");
        let silenced = text.lines().any(|line| silences(line.trim_start()));
        assert!(!silenced, "{}: use #[expect(…, reason)]", path.display());
    }
}

#[test]
fn what_traces_need_is_there_only_for_those_who_ask_for_it() {
    for entry in fs::read_dir(crates()).unwrap() {
        let manifest = fs::read_to_string(entry.unwrap().path().join("Cargo.toml")).unwrap();
        let mut lines = manifest.lines();
        assert!(
            !lines.any(|line| line.starts_with("default =")),
            "{manifest}"
        );
        let needed = manifest
            .lines()
            .filter(|line| line.starts_with("opentelemetry"));
        for line in needed {
            assert!(line.contains("optional = true"), "{line}");
        }
    }
}

#[test]
fn the_map_names_every_room() {
    let map = fs::read_to_string(crates().parent().unwrap().join("ARCHITECTURE.md")).unwrap();
    for entry in fs::read_dir(crates()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(
            map.contains(&format!("`{name}`")),
            "ARCHITECTURE.md does not know {name}"
        );
    }
    let modules = fs::read_dir(crates().join("flightline-core/src")).unwrap();
    let modules = modules.map(|entry| entry.unwrap().path());
    for path in modules.filter(|path| path.is_file()) {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(
            name == "lib" || map.contains(&format!("`{name}`")),
            "ARCHITECTURE.md does not know core's {name}"
        );
    }
}

/// Everything below a state folder, a mirror or a place that a user names is reached through
/// `flightline_workspace::beneath`. What opens, makes, moves or removes files by their paths stands here, with the reason
/// why it may.
#[test]
fn files_are_reached_through_one_door() {
    let allowed = [
        // A backup that a user named, and folders of our own that are made beside it and gone afterwards.
        "flightline-store/src/copy.rs",
        // The demo's own folder, which it makes.
        "fleet/src/command/demo/stage.rs",
        // The system's own files: /proc.
        "flightline-server/src/metrics/process.rs",
        "flightline-workspace/src/process.rs",
        // Where a typed path leads is found out by looking at links; nothing is opened.
        "flightline-workspace/src/typed.rs",
    ];
    let by_path = [
        "fs::read(",
        "fs::read_to_string(",
        "fs::write(",
        "fs::copy(",
        "fs::rename(",
        "fs::remove_",
        "fs::create_dir",
        "fs::hard_link(",
        "fs::set_permissions(",
        "fs::read_dir(",
        "fs::read_link(",
        "unix::fs::symlink",
        "File::open(",
        "File::create(",
        "File::options(",
        "OpenOptions::new(",
        "DirBuilder::new(",
    ];
    let mut seen = Vec::new();
    for room in fs::read_dir(crates()).unwrap() {
        let room = room.unwrap().path();
        if room.ends_with("flightline-testkit") {
            continue;
        }
        for path in rust_files(&room.join("src")) {
            if path.ends_with("tests.rs") {
                continue;
            }
            let code = code(&path);
            let name = path.strip_prefix(crates()).unwrap();
            let name = name.to_str().unwrap().to_owned();
            let found = by_path.iter().find(|call| code.contains(*call));
            match (found, allowed.contains(&name.as_str())) {
                (Some(_), true) => seen.push(name),
                (Some(call), false) => {
                    panic!("{name} uses `{call}`: see flightline_workspace::beneath")
                }
                (None, _) => {}
            }
        }
    }
    let idle: Vec<&&str> = allowed
        .iter()
        .filter(|name| !seen.iter().any(|seen| seen == **name))
        .collect();
    assert!(idle.is_empty(), "no longer needed: {idle:?}");
}

#[test]
fn the_map_is_short() {
    let map = fs::read_to_string(crates().parent().unwrap().join("ARCHITECTURE.md")).unwrap();
    let lines = map.lines().count();
    assert!(
        lines <= 150,
        "ARCHITECTURE.md has {lines} lines: docs/design has the chapters"
    );
    for line in map.lines() {
        let width = line.chars().count();
        assert!(width <= 400, "{width} characters: {line}");
    }
}

#[test]
fn every_link_of_the_pages_leads_somewhere() {
    for page in pages() {
        let (text, shown) = (fs::read_to_string(&page).unwrap(), page.display());
        for link in text.split("](").skip(1) {
            let link = link.split(')').next().unwrap();
            if link.contains("://") {
                continue;
            }
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => page.clone(),
                path => page.parent().unwrap().join(path),
            };
            assert!(target.exists(), "{shown} links to {link}");
            if !heading.is_empty() {
                let target = fs::read_to_string(&target).unwrap();
                let mut headings = target.lines().filter(|line| line.starts_with('#'));
                let found = headings.any(|line| anchor(line) == heading);
                assert!(found, "{shown} links to {link}: no such heading");
            }
        }
    }
}

#[test]
fn every_file_that_the_pages_name_is_there() {
    let root = crates().parent().unwrap().to_path_buf();
    let files: Vec<String> = rust_files(&crates())
        .iter()
        .map(|path| path.to_str().unwrap().to_owned())
        .collect();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for word in quoted(&text) {
            let word = word.split(' ').next().unwrap();
            let whole = ["crates/", "docs/", "scripts/", "deploy/"];
            if whole.iter().any(|folder| word.starts_with(folder)) {
                assert!(root.join(word).exists(), "{} names {word}", page.display());
            } else if word.ends_with(".rs") && !word.contains('*') && !is_an_example(word) {
                let end = format!("/{word}");
                let found = files.iter().any(|file| file.ends_with(&end));
                assert!(found, "{} names {word}", page.display());
            }
        }
    }
}

/// A page may also name a module of tests.
#[test]
fn every_test_that_the_pages_name_is_there() {
    let mut count = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for word in quoted(&text) {
            let mut parts: Vec<&str> = word.split("::").collect();
            let ring = RINGS
                .iter()
                .find(|(name, _)| parts.len() > 1 && parts[0] == *name);
            let Some((_, root)) = ring else { continue };
            let mut file = crates().join(root);
            let module = file.join(parts[1..].join("/")).with_extension("rs");
            if module.is_file() {
                continue;
            }
            let name = parts.pop().unwrap();
            if file.is_dir() {
                file = file.join(parts[1..].join("/")).with_extension("rs");
            }
            let code = fs::read_to_string(&file);
            let code = code.unwrap_or_else(|_| panic!("{} names {word}", page.display()));
            let found = code.contains(&format!("fn {name}("));
            assert!(found, "{} names {word}", page.display());
            count += 1;
        }
    }
    assert!(count > 20, "the pages name {count} tests");
}

/// A doc comment names its subject (STYLE.md): many of them are the descriptions that clients of the API read.
#[test]
fn doc_comments_name_their_subject() {
    let empty = [
        "Which.", "When.", "Why.", "What.", "Where.", "How.", "Who.", "Whose.", "Whom.", "Its id.",
    ];
    let vague = [
        "The same", "It", "Its", "They", "Those", "Who", "Whether", "Nor",
    ];
    for path in rust_files(&crates()) {
        let shown = path.display().to_string();
        if !shown.contains("/src/") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let mut within = false;
        for line in text.lines().map(str::trim_start) {
            let doc = line
                .strip_prefix("/// ")
                .or_else(|| line.strip_prefix("//! "));
            if let Some(doc) = doc.filter(|_| !within) {
                assert!(!empty.contains(&doc), "{shown}: `{doc}`");
                let first = vague.iter().filter_map(|word| doc.strip_prefix(word));
                let begins = first.into_iter().any(|rest| rest.starts_with([' ', ',']));
                assert!(!begins, "{shown}: `{doc}`: name the subject");
            }
            within = doc.is_some();
            let comment = line.strip_prefix("//").unwrap_or_default().to_lowercase();
            for word in ["whoever", "somebody", "everybody"] {
                assert!(!comment.contains(word), "{shown}: `{line}`: say who");
            }
        }
    }
}

/// The API's description helps those who have nothing else: every operation, parameter and field has words of its own.
#[test]
fn every_description_says_something() {
    for page in ["openapi.json", "schemas.json"] {
        let text = fs::read_to_string(crates().join("../docs").join(page)).unwrap();
        let page: Value = serde_json::from_str(&text).unwrap();
        let (mut found, mut bare) = (Vec::new(), Vec::new());
        look(&page, "", &mut found, &mut bare);
        assert_eq!(bare, Vec::<String>::new(), "without a description");
        assert!(found.len() > 1_000, "{} descriptions", found.len());
        for description in found {
            let words = description.split_whitespace().count();
            assert!(words > 2, "`{description}` says too little");
        }
    }
}

/// STYLE.md shows code of ours: the first line of a block names the file, and the others stand in it one after the other.
/// `// …` stands for lines that are left out. Doc comments and attributes may be missing without it.
#[test]
fn the_examples_of_the_style_are_from_the_code() {
    let root = crates().parent().unwrap().to_path_buf();
    let style = fs::read_to_string(root.join("STYLE.md")).unwrap();
    let blocks: Vec<&str> = style.split("```rust\n").skip(1).collect();
    for block in &blocks {
        let mut lines = block.split("```").next().unwrap().lines().map(str::trim);
        let file = lines.next().unwrap().strip_prefix("// ").unwrap();
        let shown: Vec<&str> = lines.collect();
        let is_doc = |line: &str| line.starts_with("///") || line.starts_with("#[");
        let code = fs::read_to_string(root.join(file)).unwrap();
        let mut code: Vec<&str> = code.lines().map(str::trim).collect();
        code.retain(|line| !is_doc(line) || shown.contains(line));
        let mut rest = code.as_slice();
        for run in shown.split(|line| *line == "// …") {
            let found = (0..=rest.len()).find(|at| rest[*at..].starts_with(run));
            let found = found.unwrap_or_else(|| panic!("{file} has no {run:#?}"));
            rest = &rest[found + run.len()..];
        }
    }
    assert!(blocks.len() > 10, "{} examples", blocks.len());
}

/// The tests that docs/dev/seed-*.md cite as proof go through the product, and are there.
#[test]
fn what_is_cited_for_the_seeds_is_there() {
    let texts = RINGS.map(|(name, root)| {
        let root = crates().join(root);
        let files = match root.is_dir() {
            true => rust_files(&root),
            false => vec![root.clone()],
        };
        let text: String = files
            .iter()
            .map(|file| fs::read_to_string(file).unwrap())
            .collect();
        (name, root, text)
    });
    for seed in ["a", "b", "c", "d", "e"] {
        let page = crates().join(format!("../docs/dev/seed-{seed}.md"));
        let page = fs::read_to_string(page).unwrap();
        let cited = page.split('`').skip(1).step_by(2);
        let mut count = 0;
        for test in cited.filter(|word| word.contains("::") && !word.ends_with("::")) {
            let (root, name) = (test.split("::").next(), test.rsplit("::").next());
            let found = texts.iter().find(|(of, ..)| Some(*of) == root);
            let (_, folder, text) =
                found.unwrap_or_else(|| panic!("seed-{seed}.md cites `{test}`: {RINGS:?}"));
            let name = name.unwrap();
            let is_test = text
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .any(|word| word == name);
            let is_module = folder.join(format!("{name}.rs")).is_file();
            // The rest of a name that is cut short stands somewhere above it.
            let is_cut = name.ends_with('…');
            assert!(
                is_test || is_module || is_cut,
                "seed-{seed}.md cites `{test}`"
            );
            count += 1;
        }
        assert!(count > 10, "seed-{seed}.md cites {count} tests");
    }
}

/// A public type's name leads to one definition in the whole workspace, and the name of any type says what it is.
#[test]
fn no_public_type_name_stands_twice() {
    /// Two builds choose between the definitions of these with `#[cfg(feature = …)]`.
    const CHOSEN_BY_FEATURE: [&str; 3] = ["HasSchema", "Traces", "Tracing"];
    /// Words that fit any type.
    const VAGUE: [&str; 21] = [
        "Asked", "Answer", "Data", "Entry", "Found", "Info", "Item", "Manager", "Means", "Order",
        "Place", "Plan", "Said", "Seen", "Shown", "Standing", "Thing", "Told", "Way", "What",
        "Whose",
    ];
    let mut found: std::collections::BTreeMap<String, Vec<String>> =
        std::collections::BTreeMap::new();
    for room in fs::read_dir(crates()).unwrap() {
        for path in rust_files(&room.unwrap().path().join("src")) {
            let text = fs::read_to_string(&path).unwrap();
            let shown = path.display().to_string();
            let tests = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
            for (name, public) in text[..tests].lines().filter_map(declared_type) {
                assert!(!VAGUE.contains(&name), "`{name}` in {shown} says nothing");
                if public {
                    found
                        .entry(name.to_owned())
                        .or_default()
                        .push(shown.clone());
                }
            }
        }
    }
    assert!(found.len() > 500, "{} public types", found.len());
    for (name, files) in &found {
        let chosen = CHOSEN_BY_FEATURE.contains(&name.as_str());
        assert!(files.len() == 1 || chosen, "`{name}` stands in {files:?}");
    }
}
