//! The routes that are one operation each: what of a request goes where in it. One row is one route, so
//! that the router and the published description cannot differ.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Query as AxumQuery, RawPathParams, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::routing::{MethodFilter, on};
use flightline::Access;
use flightline::core::Refusal;
use flightline::core::redact::shown;
use serde_json::{Map, Value, json};

use super::ops::check_agent;
use super::{Done, Shared};
use crate::door::{Body, Guest};
use crate::operation::{self, Ask};

/// A route that is one operation.
pub(crate) struct Route {
    pub(crate) method: &'static str,
    /// Below `/api/v1`.
    pub(crate) path: &'static str,
    /// The operation's name.
    pub(crate) operation: &'static str,
    /// How success is answered.
    pub(crate) status: StatusCode,
    /// What it does.
    pub(crate) about: &'static str,
    shape: Shape,
}

/// Makes the operation's request of what came in.
type Shape = fn(&mut Asked) -> Result<(), Refusal>;

/// What came in: the names in the path, the query, and the body, which becomes the request.
pub(crate) struct Asked {
    names: BTreeMap<String, String>,
    query: BTreeMap<String, String>,
    body: Map<String, Value>,
    /// Whoever it is done as, when the address says so.
    acts_as: Option<String>,
}

impl Asked {
    fn name(&self, name: &str) -> String {
        self.names.get(name).cloned().unwrap_or_default()
    }

    fn set(&mut self, field: &str, value: impl Into<Value>) {
        self.body.insert(field.to_owned(), value.into());
    }

    /// What the body does not say.
    fn or(&mut self, field: &str, value: impl Into<Value>) {
        self.body.entry(field).or_insert(value.into());
    }

    /// A text of the query.
    fn take(&mut self, from: &str, to: &str) {
        if let Some(text) = self.query.remove(from) {
            self.set(to, text);
        }
    }

    fn take_number(&mut self, name: &str, unless: Option<u64>) -> Result<(), Refusal> {
        match self.query.remove(name) {
            Some(text) => {
                let number: u64 = text.parse().map_err(|_| wrong(name, &text, "a number"))?;
                self.set(name, number);
            }
            None => {
                if let Some(number) = unless {
                    self.set(name, number);
                }
            }
        }
        Ok(())
    }

    fn take_switch(&mut self, name: &str) -> Result<(), Refusal> {
        match self.query.remove(name).as_deref() {
            None | Some("false") => self.set(name, false),
            Some("true") => self.set(name, true),
            Some(text) => return Err(wrong(name, text, "true or false")),
        }
        Ok(())
    }
}

fn wrong(name: &str, text: &str, what: &str) -> Refusal {
    Refusal::invalid(format!(
        "`{name}` is `{}`, which is not {what}",
        shown(text)
    ))
}

const fn get(
    path: &'static str,
    operation: &'static str,
    about: &'static str,
    shape: Shape,
) -> Route {
    Route {
        method: "GET",
        path,
        operation,
        status: StatusCode::OK,
        about,
        shape,
    }
}

const fn post(
    path: &'static str,
    operation: &'static str,
    about: &'static str,
    shape: Shape,
) -> Route {
    Route {
        method: "POST",
        ..get(path, operation, about, shape)
    }
}

const fn create(
    path: &'static str,
    operation: &'static str,
    about: &'static str,
    shape: Shape,
) -> Route {
    Route {
        status: StatusCode::CREATED,
        ..post(path, operation, about, shape)
    }
}

const fn patch(
    path: &'static str,
    operation: &'static str,
    about: &'static str,
    shape: Shape,
) -> Route {
    Route {
        method: "PATCH",
        ..get(path, operation, about, shape)
    }
}

fn as_it_is(_: &mut Asked) -> Result<(), Refusal> {
    Ok(())
}

/// What is asked of the thing in the address.
macro_rules! of_the_one_named {
    ($($noun:ident)*) => { $(
        fn $noun(asked: &mut Asked) -> Result<(), Refusal> {
            asked.set(stringify!($noun), asked.name("id"));
            Ok(())
        }
    )* };
}

of_the_one_named! { mission sortie message agent }

/// Done as the agent in the address.
fn as_agent(asked: &mut Asked) -> Result<(), Refusal> {
    asked.acts_as = Some(asked.name("id"));
    Ok(())
}

/// A mission goes to this state.
macro_rules! to_state {
    ($word:literal) => {
        |asked| {
            asked.set("to", $word);
            mission(asked)
        }
    };
}

/// A sortie moves: an act that says nothing more is its name alone.
macro_rules! act {
    ($word:literal) => {
        |asked| {
            let more = std::mem::take(&mut asked.body);
            asked.set("action", json!({ $word: more }));
            sortie(asked)
        }
    };
    (bare $word:literal) => {
        |asked| {
            asked.set("action", $word);
            sortie(asked)
        }
    };
}

/// Every route that is one operation.
#[rustfmt::skip]
pub(crate) const ROUTES: &[Route] = &[
    get("/checkpoints/{id}/diff/{other}", "diff_checkpoints", "What differs between two checkpoints, or between one and `now`", |asked| {
        asked.set("a", asked.name("id"));
        let other = asked.name("other");
        asked.set("b", (other != "now").then_some(other));
        Ok(())
    }),
    patch("/checkpoints/{id}", "mark_checkpoint", "Pin a checkpoint, unpin it, or write a note to it", |asked| {
        let mark = match (asked.body.remove("note"), asked.body.remove("pinned")) {
            (Some(note), None) => json!({ "note": { "text": note } }),
            (None, Some(Value::Bool(true))) => json!("pin"),
            (None, Some(Value::Bool(false))) => json!("unpin"),
            _ => return Err(Refusal::invalid("give either `note` or `pinned`")),
        };
        asked.set("mark", mark);
        asked.set("checkpoint", asked.name("id"));
        Ok(())
    }),
    post("/checkpoints/{id}/verify", "verify_checkpoints", "Check a checkpoint against its hashes", |asked| {
        asked.set("checkpoint", asked.name("id"));
        Ok(())
    }),
    get("/missions", "list_missions", "Missions, newest first", |asked| {
        asked.take_switch("archived")?;
        asked.take_number("limit", Some(50))
    }),
    create("/missions", "create_mission", "Create a mission, with its first sorties", as_it_is),
    get("/missions/{id}", "show_mission", "A mission and its sorties", mission),
    post("/missions/{id}/start", "change_mission", "Begin a mission, or go on with it", to_state!("in_progress")),
    post("/missions/{id}/pause", "change_mission", "Let a mission rest", to_state!("paused")),
    post("/missions/{id}/complete", "change_mission", "Complete a mission", to_state!("completed")),
    post("/missions/{id}/fail", "change_mission", "Give a mission up", to_state!("failed")),
    post("/missions/{id}/archive", "change_mission", "Put a mission away", to_state!("archived")),
    post("/missions/{id}/transition", "transition_mission", "Move a mission's workflow to another state", |asked| {
        asked.or("pending", false);
        mission(asked)
    }),
    get("/missions/{id}/timeline", "list_events", "What happened in a mission, newest first", |asked| {
        asked.set("story", true);
        asked.take_number("limit", Some(100))?;
        mission(asked)
    }),
    get("/missions/{id}/sorties", "list_sorties", "The sorties of a mission, in order", |asked| {
        asked.take("status", "status");
        asked.take("agent", "agent");
        asked.take_number("limit", Some(1_000))?;
        mission(asked)
    }),
    create("/missions/{id}/sorties", "add_sorties", "Add sorties to a mission: one, or several as `sorties`", |asked| {
        if !asked.body.contains_key("sorties") {
            let one = std::mem::take(&mut asked.body);
            asked.set("sorties", vec![Value::Object(one)]);
        }
        mission(asked)
    }),
    post("/missions/{id}/sorties/claim-next", "claim_next", "Take the next sortie that is ready", |asked| {
        asked.or("lock", false);
        mission(asked)
    }),
    get("/missions/{id}/notes", "list_notes", "The notes of a mission, oldest first", |asked| {
        asked.take("kind", "kind");
        mission(asked)
    }),
    create("/missions/{id}/notes", "add_note", "Write a note", mission),
    get("/sorties/{id}", "show_sortie", "A sortie with all its parts", sortie),
    patch("/sorties/{id}", "update_sortie", "Report progress; what is left out stays", |asked| {
        asked.or("subtasks", json!([]));
        asked.or("files", json!([]));
        asked.or("criteria", json!({}));
        asked.or("tokens_in", 0);
        asked.or("tokens_out", 0);
        sortie(asked)
    }),
    post("/sorties/{id}/claim", "claim_sortie", "Take a sortie", |asked| {
        asked.or("lock", false);
        sortie(asked)
    }),
    post("/sorties/{id}/assign", "change_sortie", "Give a sortie to an agent", act!("assign")),
    post("/sorties/{id}/reassign", "change_sortie", "Take a sortie from its owner and give it to another", act!("reassign")),
    post("/sorties/{id}/start", "change_sortie", "Begin work on what was assigned", act!(bare "start")),
    post("/sorties/{id}/block", "change_sortie", "A sortie waits for something", act!("block")),
    post("/sorties/{id}/unblock", "change_sortie", "What it waited for has come", act!(bare "unblock")),
    post("/sorties/{id}/resume", "change_sortie", "Take a sortie up again after an interruption", act!(bare "resume")),
    post("/sorties/{id}/complete", "change_sortie", "A sortie is done", act!("complete")),
    post("/sorties/{id}/fail", "change_sortie", "Give a sortie up", act!("fail")),
    post("/sorties/{id}/release", "change_sortie", "Give a sortie back", act!("release")),
    post("/sorties/{id}/approve", "change_sortie", "The result of a sortie is good", act!("approve")),
    post("/sorties/{id}/reject", "change_sortie", "The result of a sortie is not good: do it again", act!("reject")),
    post("/sorties/{id}/error", "report_error", "Report an error met in a sortie", |asked| {
        asked.or("blocking", false);
        sortie(asked)
    }),
    post("/sorties/{id}/review", "add_review", "Review a sortie", sortie),
    get("/effects", "list_effects", "Effects on the world outside", |asked| {
        asked.take("mission_id", "mission");
        asked.take_switch("in_doubt")
    }),
    create("/effects", "begin_effect", "Something is about to be done to the world outside", |asked| {
        asked.or("again", false);
        Ok(())
    }),
    post("/effects/{key}/done", "finish_effect", "It was done", |asked| {
        asked.set("key", asked.name("key"));
        Ok(())
    }),
    get("/agents", "list_agents", "The agents, and how alive each is", |asked| asked.take_switch("retired")),
    create("/agents", "register_agent", "Register an agent, or bring a known one back in a new session", as_it_is),
    get("/agents/{id}", "show_agent", "An agent", agent),
    post("/agents/{id}/heartbeat", "heartbeat", "Give a sign of life", as_agent),
    post("/agents/{id}/retire", "retire_agent", "Retire an agent", agent),
    post("/agents/{id}/resume", "resume_agent", "An agent comes back in a new session", agent),
    post("/agents/{id}/takeover", "take_over", "Another agent takes over from this one", |asked| {
        asked.or("force", false);
        asked.or("sightings", json!([]));
        asked.set("from", asked.name("id"));
        Ok(())
    }),
    post("/agents/{id}/restart", "restart_agent", "An agent begins its work again", |asked| {
        asked.or("force", false);
        asked.or("sightings", json!([]));
        agent(asked)
    }),
    get("/agents/{id}/recovery", "brief_agent", "The briefing of an agent: who it is, what is done, what comes next", |asked| {
        asked.set("minimal", false);
        asked.take_number("max_tokens", None)?;
        asked.take("mission_id", "mission");
        as_agent(asked)
    }),
    post("/agents/{id}/recovery/ack", "acknowledge_briefing", "The briefing with this nonce arrived", as_agent),
    get("/agents/{id}/inbox", "peek_inbox", "An agent's mail, without reading it", |asked| {
        asked.take_switch("all")?;
        asked.take_number("limit", Some(50))?;
        agent(asked)
    }),
    get("/locks", "list_locks", "The locks that are held", |asked| {
        asked.take("agent", "agent");
        Ok(())
    }),
    create("/locks", "acquire_locks", "Lock files and folders: all of them, or none", |asked| {
        asked.or("sightings", json!([]));
        Ok(())
    }),
    post("/locks/check", "check_locks", "Whether files may be changed", as_it_is),
    post("/locks/{id}/renew", "renew_locks", "Hold a lock for longer", |asked| {
        asked.set("locks", json!([asked.name("id")]));
        Ok(())
    }),
    Route {
        method: "DELETE",
        ..get("/locks/{id}", "release_locks", "Let a lock go", |asked| {
            asked.set("all", false);
            asked.take_number("fence", None)?;
            asked.set("locks", json!([asked.name("id")]));
            Ok(())
        })
    },
    create("/messages", "send_mail", "Send a message", as_it_is),
    post("/messages/{id}/read", "read_mail", "Read a message", message),
    post("/messages/{id}/ack", "acknowledge_mail", "Acknowledge a message", |asked| {
        asked.set("all", false);
        asked.set("messages", json!([asked.name("id")]));
        Ok(())
    }),
    post("/messages/{id}/requeue", "requeue_mail", "Deliver a message again", message),
    get("/events", "list_events", "Events: the newest, or those after a place, oldest first", |asked| {
        asked.take("mission_id", "mission");
        asked.take("type", "kind");
        asked.take("since", "since");
        asked.take_number("limit", Some(100))?;
        if let Some(text) = asked.query.remove("after") {
            let place = super::events::place(&text)?;
            asked.set("after", json!({ "history": place.history, "rev": place.rev }));
        }
        Ok(())
    }),
    get("/recovery/candidates", "peek_candidates", "Missions that can be recovered", |asked| {
        asked.take_number("threshold_ms", None)?;
        asked.set("sightings", json!([]));
        Ok(())
    }),
    get("/status", "show_status", "The fleet at a glance", |asked| {
        asked.take("mission_id", "mission");
        Ok(())
    }),
    get("/stats", "show_stats", "Figures: how much there is of everything", as_it_is),
];

/// All of them, as a router.
pub(crate) fn router() -> Router<Arc<Shared>> {
    ROUTES.iter().fold(Router::new(), |router, route| {
        let filter = match route.method {
            "POST" => MethodFilter::POST,
            "PATCH" => MethodFilter::PATCH,
            "DELETE" => MethodFilter::DELETE,
            _ => MethodFilter::GET,
        };
        let handler = on(
            filter,
            move |state: State<Arc<Shared>>,
                  names: RawPathParams,
                  uri: Uri,
                  guest: Guest,
                  headers: HeaderMap,
                  body: Body| async move {
                let names = names
                    .iter()
                    .map(|(name, value)| (name.to_owned(), value.to_owned()));
                let asked = Asked {
                    names: names.collect(),
                    query: query(&uri)?,
                    body: body.read()?,
                    acts_as: None,
                };
                handle(route, &state, asked, &guest, &headers).await
            },
        );
        router.route(route.path, handler)
    })
}

fn query(uri: &Uri) -> Result<BTreeMap<String, String>, Refusal> {
    let pairs = AxumQuery::<Vec<(String, String)>>::try_from_uri(uri)
        .map_err(|_| Refusal::invalid("the query cannot be read"))?;
    Ok(pairs.0.into_iter().collect())
}

async fn handle(
    route: &Route,
    shared: &Shared,
    mut asked: Asked,
    guest: &Guest,
    headers: &HeaderMap,
) -> Done {
    let entry = operation::find(route.operation)?;
    guest.must_have(entry.scope)?;
    (route.shape)(&mut asked)?;
    if let Some(unknown) = asked.query.keys().next() {
        return Err(
            Refusal::invalid(format!("`{}` cannot be asked for here", shown(unknown))).into(),
        );
    }
    let caller = guest.caller_as(headers, asked.acts_as.as_deref())?;
    let request = Value::Object(asked.body).to_string();
    if entry.access != Access::Read {
        check_agent(guest, entry, &Body(request.clone()))?;
    }
    let folder = shared.beside.state.clone();
    let outcome = shared
        .with(entry.access, entry.company, move |fleet| {
            let ask = Ask {
                request: &request,
                caller: &caller,
                folder: &folder,
                rehearse: false,
            };
            entry.run(fleet, &ask).outcome
        })
        .await?;
    outcome.answer(route.status)
}
