//! Sends secrets in every text of a request, and looks at what is said.

use std::cell::Cell;

use flightline::registry::Registered;
use flightline_testkit::prelude::*;
use serde_json::{Value, json};

/// What a free text field holds before it is poisoned.
pub const TEXT: &str = "text";

/// A secret, and the parts of it that must not be found anywhere. Built by concatenation, so that no
/// scanner takes this file for a leak.
pub struct Secret {
    pub text: String,
    pub needles: Vec<&'static str>,
}

pub fn secrets() -> Vec<Secret> {
    let secret = |text: String, needles: &[&'static str]| Secret {
        text,
        needles: needles.to_vec(),
    };
    let pem = format!("{} PRIVATE KEY-----", "RSA");
    vec![
        secret(format!("AKIA{}", "QWERTYUIOPASDFGH"), &["QWERTYUIOPASDFGH"]),
        secret(
            format!("ghp_{}", "Zx9Wv8Ut7Sr6Qp5On4Ml3Kj2Ih1Gf0Ed9Cb8"),
            &["Zx9Wv8Ut7Sr6", "Gf0Ed9Cb8"],
        ),
        secret(
            format!(
                "eyJ{}.eyJ{}.{}",
                "hbGciOiJIUzI1", "zdWIiOiIxMjM0", "sIgNaTuRe1234"
            ),
            &["hbGciOiJIUzI1", "zdWIiOiIxMjM0", "sIgNaTuRe1234"],
        ),
        secret(
            format!("postgres://ada:{}@db/x", "url5ecretPass"),
            &["url5ecretPass"],
        ),
        secret(
            format!("password={}", "hunter2correct"),
            &["hunter2correct"],
        ),
        secret(
            format!("-----BEGIN {pem}\nMIIEpAIBAAKCAQEA7pemBody\n-----END {pem}"),
            &["MIIEpAIBAAKCAQEA7pemBody"],
        ),
    ]
}

pub fn assert_clean(secrets: &[Secret], what: &str, bytes: &[u8]) {
    for needle in secrets.iter().flat_map(|secret| &secret.needles) {
        let found = bytes
            .windows(needle.len())
            .any(|window| window == needle.as_bytes());
        assert!(!found, "{needle} is in {what}");
    }
}

/// Every text in a request: the pointer to each string and to each key that its author chooses.
fn leaves(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(at.to_owned()),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                leaves(item, &format!("{at}/{index}"), found);
            }
        }
        Value::Object(fields) => {
            for (key, field) in fields {
                let own_key = ["states", "criteria", "input", "output"]
                    .iter()
                    .any(|map| at.ends_with(map));
                if own_key {
                    found.push(format!("{at}#{key}"));
                }
                leaves(field, &format!("{at}/{key}"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The request with the text at `at` replaced.
fn poisoned(mut request: Value, at: &str, poison: &str) -> Value {
    if let Some((map, key)) = at.split_once('#') {
        let fields = request.pointer_mut(map).unwrap().as_object_mut().unwrap();
        let value = fields.remove(key).unwrap();
        fields.insert(poison.to_owned(), value);
    } else {
        *request.pointer_mut(at).unwrap() = poison.into();
    }
    request
}

/// Sends poisoned requests and looks at what is said.
pub struct Prober<'w> {
    pub story: Story<'w>,
    pub mission: String,
    pub secrets: Vec<Secret>,
    /// How many poisoned requests were done, and how many refused.
    pub tally: Cell<(u32, u32)>,
    number: Cell<u32>,
}

impl<'w> Prober<'w> {
    pub fn new(world: &'w World) -> Self {
        let story = Story::new(world);
        story.register("lead", Role::Dispatch);
        for agent in ["ada", "bob", "eve"] {
            story.register(agent, Role::Specialist);
        }
        let mission = story
            .mission("Add login", &["First"])
            .mission
            .id
            .to_string();
        let choose = UseMission {
            mission: mission.clone(),
        };
        story.run("", &choose).unwrap();
        Self {
            story,
            mission,
            secrets: secrets(),
            tally: Cell::default(),
            number: Cell::default(),
        }
    }

    /// A word that was not used before.
    pub fn fresh(&self, word: &str) -> String {
        self.number.set(self.number.get() + 1);
        format!("{word}{}", self.number.get())
    }

    /// A sortie that ada is at.
    pub fn sortie(&self) -> String {
        let title = self.fresh("Sortie ");
        let request = json!({ "mission": null, "sorties": [{
            "title": title, "description": null, "task_id": null, "depends_on": [], "files": [], "criteria": [],
            "priority": 0, "estimate_ms": null, "resume_instructions": null, "input": null,
        }] });
        let add: AddSorties = serde_json::from_value(request).unwrap();
        self.story.run("", &add).unwrap();
        self.story.claim("ada", &title).unwrap();
        self.story.sortie_id(&title)
    }

    pub fn moved(&self, sortie: String, action: Value) -> String {
        let change: ChangeSortie =
            serde_json::from_value(json!({ "sortie": sortie, "action": action })).unwrap();
        self.story.run("", &change).unwrap();
        sortie
    }

    pub fn message(&self) -> String {
        let sent = self.story.send("bob", &["ada"], "Question").unwrap();
        sent.message.id.to_string()
    }

    /// Poisons every text of the request that `template` makes, one at a time.
    pub fn probe<O: Registered>(&self, agent: &str, template: impl Fn() -> Value) {
        let (mut found, first) = (Vec::new(), template());
        leaves(&first, "", &mut found);
        let everything: Vec<&str> = self
            .secrets
            .iter()
            .map(|secret| secret.text.as_str())
            .collect();
        let everything = format!("before {} after", everything.join(" and "));
        for at in found {
            let free = first.pointer(&at).is_some_and(|leaf| leaf == TEXT);
            let done = self.send::<O>(agent, &at, poisoned(template(), &at, &everything));
            assert!(done || !free, "{} {at} takes any text", O::NAME);
            if !done {
                // It takes only names or paths: those secrets look like one.
                let request = template();
                let texts = self.secrets.iter().map(|secret| &secret.text);
                for (shape, text) in ["", "", "", "/", "src/"].iter().zip(texts) {
                    let poison = format!("{shape}{text}");
                    self.send::<O>(agent, &at, poisoned(request.clone(), &at, &poison));
                }
            }
        }
    }

    fn send<O: Registered>(&self, agent: &str, at: &str, request: Value) -> bool {
        let (done, said) = match serde_json::from_value::<O>(request) {
            // A word that is none of ours: front ends redact what their parser says.
            Err(error) if error.to_string().starts_with("unknown variant") => return false,
            Err(error) => (false, error.to_string()),
            Ok(operation) => match self.story.run(agent, &operation) {
                Ok(outcome) => (true, serde_json::to_string(&outcome).unwrap()),
                Err(refusal) => (false, serde_json::to_string(&refusal).unwrap()),
            },
        };
        assert_clean(
            &self.secrets,
            &format!("the answer to {} {at}: {said}", O::NAME),
            said.as_bytes(),
        );
        let (yes, no) = self.tally.get();
        self.tally
            .set(if done { (yes + 1, no) } else { (yes, no + 1) });
        done
    }
}
