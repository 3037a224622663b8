//! The routes that are one operation each. One row is one route: the router, the reading of a request and
//! the published description are made of the same rows, so they cannot differ.

use std::sync::Arc;

use axum::Router;
use axum::extract::{RawPathParams, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::routing::{MethodFilter, on};
use flightline::core::{Kind, Refusal};
use flightline::registry::CallContext;

use super::page::{self, PageRequest};
use super::take::{RequestParts, Take};
use super::{HandlerResult, Shared};
use crate::middleware::{JsonBody, Principal};
use Take::{
    Act, ActsAs, After, All, Bare, Id, Ids, Is, Key, Limit, Mark, Not, Number, Other, Place,
    Sorties, Story, Switch, Text,
};

pub(crate) struct Route {
    pub(crate) method: &'static str,
    /// The path below `/api/v1`.
    pub(crate) path: &'static str,
    pub(crate) operation: &'static str,
    pub(crate) status: StatusCode,
    #[cfg_attr(
        not(feature = "schema"),
        expect(dead_code, reason = "only the description says it")
    )]
    pub(crate) about: &'static str,
    /// The parts of a request that become fields of the operation's request.
    pub(crate) takes: &'static [Take],
    /// The kind of the subject that `{id}` names, where it can be looked at by itself.
    pub(crate) target: Option<Kind>,
    pub(crate) list: Option<page::List>,
}

impl Route {
    const fn new(
        method: &'static str,
        at: (&'static str, &'static str),
        about: &'static str,
        takes: &'static [Take],
    ) -> Self {
        Self {
            method,
            path: at.0,
            operation: at.1,
            status: StatusCode::OK,
            about,
            takes,
            target: None,
            list: None,
        }
    }

    /// Makes this a route about the subject that `{id}` names.
    const fn of(self, kind: Kind) -> Self {
        Self {
            target: Some(kind),
            ..self
        }
    }

    /// Makes this a route that lists `things`, each known by the value at `key`.
    const fn list(self, things: &'static str, key: &'static str) -> Self {
        Self {
            list: Some(page::List { things, key }),
            ..self
        }
    }

    pub(crate) fn has_body(&self) -> bool {
        matches!(self.method, "POST" | "PATCH")
    }
}

const fn get(
    path: &'static str,
    operation: &'static str,
    about: &'static str,
    takes: &'static [Take],
) -> Route {
    Route::new("GET", (path, operation), about, takes)
}

const fn post(
    path: &'static str,
    operation: &'static str,
    about: &'static str,
    takes: &'static [Take],
) -> Route {
    Route::new("POST", (path, operation), about, takes)
}

const fn create(
    path: &'static str,
    operation: &'static str,
    about: &'static str,
    takes: &'static [Take],
) -> Route {
    Route {
        status: StatusCode::CREATED,
        ..post(path, operation, about, takes)
    }
}

const fn patch(
    path: &'static str,
    operation: &'static str,
    about: &'static str,
    takes: &'static [Take],
) -> Route {
    Route::new("PATCH", (path, operation), about, takes)
}

const fn delete(
    path: &'static str,
    operation: &'static str,
    about: &'static str,
    takes: &'static [Take],
) -> Route {
    Route::new("DELETE", (path, operation), about, takes)
}

/// A route that moves a mission to another state.
const fn mission(path: &'static str, about: &'static str, takes: &'static [Take]) -> Route {
    post(path, "change_mission", about, takes).of(Kind::Mission)
}

const fn sortie(path: &'static str, about: &'static str, takes: &'static [Take]) -> Route {
    post(path, "change_sortie", about, takes).of(Kind::Sortie)
}

#[rustfmt::skip]
pub(crate) const ROUTES: &[Route] = &[
    get("/checkpoints/{id}/diff/{other}", "diff_checkpoints", "The difference between two checkpoints, or between one and `now`", &[Id("a"), Other]),
    get("/checkpoints/{id}/briefing", "brief_checkpoint", "The recovery context of a checkpoint as text: an agent's, or the mission's", &[Id("checkpoint"), Text("agent", "agent"), Number("max_tokens", "max_tokens")]).of(Kind::Checkpoint),
    patch("/checkpoints/{id}", "mark_checkpoint", "Pin a checkpoint, unpin it, or write a note to it", &[Id("checkpoint"), Mark]).of(Kind::Checkpoint),
    post("/checkpoints/{id}/verify", "verify_checkpoints", "Check a checkpoint against its hashes", &[Id("checkpoint")]),

    get("/missions", "list_missions", "List missions, newest first", &[All, Switch("archived", "archived")]).list("missions", "/id"),
    create("/missions", "create_mission", "Create a mission, with its first sorties", &[]),
    get("/missions/{id}", "show_mission", "A mission and its sorties", &[Id("mission")]).of(Kind::Mission),
    patch("/missions/{id}", "update_mission", "Edit a mission; fields not given stay unchanged", &[Id("mission")]).of(Kind::Mission),
    mission("/missions/{id}/start", "Start a mission, or continue it", &[Id("mission"), Is("to", "in_progress")]),
    mission("/missions/{id}/pause", "Pause a mission until it is started again", &[Id("mission"), Is("to", "paused")]),
    mission("/missions/{id}/complete", "Complete a mission; every sortie must be completed", &[Id("mission"), Is("to", "completed")]),
    mission("/missions/{id}/fail", "Give up a mission: mark it as failed", &[Id("mission"), Is("to", "failed")]),
    mission("/missions/{id}/archive", "Archive a mission; nothing is deleted", &[Id("mission"), Is("to", "archived")]),
    post("/missions/{id}/transition", "transition_mission", "Move a mission's workflow to another state", &[Id("mission")]).of(Kind::Mission),
    get("/missions/{id}/timeline", "list_events", "The events of a mission, newest first", &[Id("mission"), Story, Limit(100)]),
    get("/missions/{id}/state", "show_state", "The state of a mission at a revision, a time or a checkpoint (default: now)", &[Id("mission"), Text("at", "at")]),
    get("/missions/{id}/replay", "replay", "A mission's history step by step: a page of it, or one step", &[Id("mission"), Text("from", "from"), Text("to", "to"), Place, Switch("states", "states"), Limit(100)]),
    get("/missions/{id}/sorties", "list_sorties", "The sorties of a mission, in order", &[Id("mission"), All, Text("status", "status"), Text("agent", "agent")]).list("sorties", "/id"),
    create("/missions/{id}/sorties", "add_sorties", "Add sorties to a mission: one, or several as `sorties`", &[Id("mission"), Sorties]),
    post("/missions/{id}/sorties/claim-next", "claim_next", "Claim the next ready sortie", &[Id("mission")]),
    get("/missions/{id}/queue", "list_queue", "The sorties of a mission in order, with the reasons why each waits; with `ready`, only those that can be claimed now, next one first", &[Id("mission"), Switch("ready", "ready")]),
    get("/missions/{id}/notes", "list_notes", "The valid notes of a mission, oldest first", &[Id("mission"), Text("kind", "kind"), Switch("all", "all")]).list("notes", "/id"),
    create("/missions/{id}/notes", "add_note", "Record a note of a mission", &[Id("mission")]),
    post("/notes/{id}/close", "end_note", "Close a note that is dealt with", &[Id("note"), Is("how", "closed")]).of(Kind::Note),
    post("/notes/{id}/withdraw", "end_note", "Withdraw a note that is no longer valid", &[Id("note"), Is("how", "withdrawn")]).of(Kind::Note),
    create("/notes/{id}/replace", "replace_note", "Replace a note; the old one is kept, but no longer valid", &[Id("note")]),

    get("/sorties/{id}", "show_sortie", "A sortie with all its parts", &[Id("sortie")]).of(Kind::Sortie),
    patch("/sorties/{id}", "update_sortie", "Report progress; fields not given stay unchanged", &[Id("sortie")]).of(Kind::Sortie),
    post("/sorties/{id}/claim", "claim_sortie", "Claim a sortie for the acting agent", &[Id("sortie")]).of(Kind::Sortie),
    sortie("/sorties/{id}/assign", "Assign a sortie to an agent", &[Id("sortie"), Act("assign")]),
    sortie("/sorties/{id}/reassign", "Reassign a sortie from its owner to another agent", &[Id("sortie"), Act("reassign")]),
    sortie("/sorties/{id}/start", "Start work on an assigned sortie", &[Id("sortie"), Bare("start")]),
    sortie("/sorties/{id}/block", "Block a sortie that waits for something", &[Id("sortie"), Act("block")]),
    sortie("/sorties/{id}/unblock", "Unblock a sortie that was blocked", &[Id("sortie"), Bare("unblock")]),
    sortie("/sorties/{id}/resume", "Resume a sortie after an interruption", &[Id("sortie"), Bare("resume")]),
    sortie("/sorties/{id}/complete", "Complete a sortie, and release its locks unless they are kept", &[Id("sortie"), Act("complete")]),
    sortie("/sorties/{id}/fail", "Give up a sortie: mark it as failed", &[Id("sortie"), Act("fail")]),
    sortie("/sorties/{id}/release", "Release a sortie, so that any agent can claim it", &[Id("sortie"), Act("release")]),
    sortie("/sorties/{id}/approve", "Approve a completed sortie", &[Id("sortie"), Act("approve")]),
    sortie("/sorties/{id}/reject", "Reject a completed sortie: it must be done again", &[Id("sortie"), Act("reject")]),
    sortie("/sorties/{id}/cancel", "Cancel a sortie; the mission continues without it", &[Id("sortie"), Act("cancel")]),
    post("/sorties/{id}/edit", "edit_sortie", "Edit a sortie; fields not given stay unchanged", &[Id("sortie")]).of(Kind::Sortie),
    post("/sorties/{id}/move", "move_sortie", "Move a sortie within its mission", &[Id("sortie")]).of(Kind::Sortie),
    post("/sorties/{id}/error", "report_error", "Report an error in a sortie", &[Id("sortie")]).of(Kind::Sortie),
    post("/sorties/{id}/review", "add_review", "Record a review, or ask for one (without a score)", &[Id("sortie")]).of(Kind::Sortie),

    get("/effects", "list_effects", "Effects on external systems, oldest first", &[Text("mission_id", "mission"), Switch("in_doubt", "in_doubt")]).list("effects", "/id"),
    create("/effects", "begin_effect", "Begin an effect on an external system", &[]),
    post("/effects/{key}/done", "finish_effect", "Report that an effect was done", &[Key("key")]),

    get("/agents", "list_agents", "The agents and their liveness", &[Switch("retired", "retired")]).list("agents", "/agent/id"),
    create("/agents", "register_agent", "Register an agent, or start a new session of a known one", &[]),
    get("/agents/{id}", "show_agent", "Show an agent with its work and its liveness", &[Id("agent")]).of(Kind::Agent),
    patch("/agents/{id}", "update_agent", "Update an agent; fields not given stay unchanged", &[Id("agent")]).of(Kind::Agent),
    post("/agents/{id}/heartbeat", "heartbeat", "Record a sign of life of an agent", &[ActsAs]),
    post("/agents/{id}/retire", "retire_agent", "Retire an agent; it holds nothing afterwards", &[Id("agent")]).of(Kind::Agent),
    post("/agents/{id}/resume", "resume_agent", "Resume an agent in a new session", &[Id("agent")]).of(Kind::Agent),
    post("/agents/{id}/takeover", "take_over", "Let another agent take over from this one", &[Id("from")]).of(Kind::Agent),
    post("/agents/{id}/restart", "restart_agent", "Restart an agent's work from scratch", &[Id("agent")]).of(Kind::Agent),
    get("/agents/{id}/recovery", "brief_agent", "The briefing of an agent: identity, finished work and next steps", &[ActsAs, Number("max_tokens", "max_tokens"), Text("mission_id", "mission")]),
    post("/agents/{id}/recovery/ack", "acknowledge_briefing", "Acknowledge the briefing with this nonce", &[ActsAs]),
    get("/agents/{id}/inbox", "peek_inbox", "An agent's mail, oldest first, without reading it", &[Id("agent"), All, Switch("all", "all")]).list("messages", "/message/id"),

    get("/locks", "list_locks", "The locks that are held", &[Text("agent", "agent")]).list("locks", "/lock/id"),
    create("/locks", "acquire_locks", "Lock files and folders: all of them, or none", &[]),
    post("/locks/check", "check_locks", "Check whether files may be changed", &[]),
    post("/locks/{id}/renew", "renew_locks", "Renew a lock before it lapses", &[Ids("locks")]).of(Kind::Lock),
    post("/locks/{id}/steal", "steal_held_lock", "Take a lock from its holder, and tell the holder why", &[Id("lock")]).of(Kind::Lock),
    delete("/locks/{id}", "release_locks", "Release a lock that the agent holds", &[Ids("locks"), Not("all"), Number("fence", "fence")]).of(Kind::Lock),

    get("/messages", "list_messages", "List messages of all agents, newest first", &[All, Text("mission_id", "mission"), Text("agent", "agent")]).list("messages", "/message/id"),
    create("/messages", "send_mail", "Send a message to agents", &[]),
    post("/messages/{id}/read", "read_mail", "Read a message, and mark it as delivered", &[Id("message")]).of(Kind::Message),
    create("/messages/{id}/reply", "reply_mail", "Answer a message, and acknowledge it", &[Id("message")]),
    post("/messages/{id}/ack", "acknowledge_mail", "Acknowledge a message as understood", &[Ids("messages"), Not("all")]).of(Kind::Message),
    post("/messages/{id}/requeue", "requeue_mail", "Deliver a message again", &[Id("message")]).of(Kind::Message),

    get("/events", "list_events", "Events: the newest, newest first, or those after a place, oldest first", &[Text("mission_id", "mission"), Text("subject", "subject"), Text("type", "kind"), Text("since", "since"), After, Limit(100)]),
    get("/recovery/candidates", "peek_candidates", "Missions that can be recovered", &[Number("threshold_ms", "threshold_ms")]).list("candidates", "/mission_id"),
    get("/recoveries", "list_recoveries", "Recoveries that were done, newest first", &[Text("mission_id", "mission")]).list("recoveries", "/id"),
    post("/recoveries/{id}/undo", "undo_recovery", "Undo a recovery that went back to a checkpoint", &[Id("recovery")]).of(Kind::Recovery),
    post("/batch", "run_batch", "Run several operations in one commit: all of them, or none", &[]),
    get("/status", "show_status", "The fleet at a glance", &[Text("mission_id", "mission")]),
    get("/stats", "show_stats", "Statistics: counts of all records", &[]),
];

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
                  principal: Principal,
                  headers: HeaderMap,
                  body: JsonBody| async move {
                let names = names
                    .iter()
                    .map(|(name, value)| (name.to_owned(), value.to_owned()));
                let mut asked = RequestParts::new(names.collect(), &uri)?;
                if route.has_body() {
                    asked.body = body.read()?;
                }
                handle(route, &state, asked, &principal, &headers).await
            },
        );
        router.route(route.path, handler)
    })
}

async fn handle(
    route: &Route,
    shared: &Shared,
    mut asked: RequestParts,
    principal: &Principal,
    headers: &HeaderMap,
) -> HandlerResult {
    let entry = principal.may_call(route.operation)?;
    asked.take_all(route.takes)?;
    let page = route
        .list
        .map(|_| PageRequest::take(&mut asked))
        .transpose()?;
    asked.reject_unknown_fields()?;
    let events = asked.events(route.operation);
    let target = route.target.map(|kind| (kind, asked.name("id")));
    let mut caller = principal.caller_of(headers, asked.acts_as.as_deref(), target)?;
    caller.place = page.as_ref().and_then(PageRequest::place);
    let window = page.as_ref().map(PageRequest::window);
    caller.window.clone_from(&window);
    let request = entry.read(&asked.request()?)?;
    let folder = shared.projects.state_of(&principal.project().id);
    let outcome = shared
        .with(
            principal.project(),
            entry.access,
            entry.commit,
            move |fleet| {
                let ask = CallContext {
                    caller: &caller,
                    folder: &folder,
                    rehearse: false,
                };
                request.run(fleet, &ask).outcome?.now()
            },
        )
        .await?
        .and_then(|outcome| outcome.text())?;
    let outcome = match (route.list, page) {
        (Some(list), Some(asking)) => {
            let (since, part) = (outcome.since.clone(), window.and_then(|it| it.given()));
            outcome.and_then(|given| list.page(&given, part, since.as_ref(), &asking))?
        }
        _ => match events {
            Some((limit, way)) => outcome.and_then(|list| page::events(&list, limit, way))?,
            None => return outcome.answer(route.status),
        },
    };
    outcome.answer(route.status)
}

/// Refuses a field or a query parameter that this route does not have.
pub(crate) fn unknown(name: &str) -> Refusal {
    Refusal::invalid(format!(
        "`{}` cannot be asked for here",
        flightline::core::redact::shown(name)
    ))
}
