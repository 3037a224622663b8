//! A fleet at a server: commands that do not care where it is, and what they do when it is not there.

use expect_test::expect;

use crate::server::Server;
use crate::world::World;

/// A fleet whose commands reach it only through a server.
struct Far {
    world: World,
    server: Server,
    token: String,
}

impl Far {
    fn new(titles: &[&str]) -> Self {
        let world = World::with_sorties(titles).local_only("it has a server of its own");
        let made = world
            .line("token create grace --scope admin --json")
            .without("FLEET_TEST_NOW")
            .run();
        let token = made.json()["token"].as_str().unwrap().to_owned();
        let server = Server::start(&world, "");
        Self {
            world,
            server,
            token,
        }
    }

    /// A command that talks to the server.
    fn line(&self, typed: &str) -> crate::running::Fleet<'_> {
        self.world
            .line(typed)
            .env("FLEET_SERVER", &self.server.url)
            .env("FLEET_TOKEN", &self.token)
    }
}

#[test]
fn commands_say_the_same_through_a_server() {
    let far = Far::new(&["Model", "Login"]);
    for typed in ["sorties list", "missions list", "locks list", "note list"] {
        let (there, here) = (far.line(typed).run(), far.world.fleet(typed));
        assert_eq!(there.stdout, here.stdout, "{typed}");
        assert_eq!((there.code, there.stderr.as_str()), (0, ""), "{typed}");
    }
    let claimed = far.line("sorties claim --next").agent("ada").run();
    assert_eq!(claimed.code, 0, "{claimed:?}");
    let sorties = far.world.json("sorties list");
    assert_eq!(sorties[0]["assigned_to"], "ada");
}

#[test]
fn a_refusal_reads_as_it_would_here() {
    let far = Far::new(&["Model"]);
    for typed in [
        "sorties show srt-ffff",
        "sorties complete srt-ffff --agent ada",
        "missions start nothing",
        "locks acquire",
        "sorties claim --next",
    ] {
        let (there, here) = (far.line(typed).run(), far.world.fleet(typed));
        assert_eq!(there, here, "{typed}");
        assert_ne!(there.code, 0, "{typed}");
    }
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let world = World::new().local_only("it names a server that is not there");
    let nobody = world
        .line("sorties list")
        .env("FLEET_SERVER", "http://127.0.0.1:1")
        .env("FLEET_TOKEN", "fleet_x")
        .run();
    expect![[r#"
        error: the server at http://127.0.0.1:1 cannot be reached: connection refused

        hint: try again when it is there; see whether it is with `fleet status`
    "#]]
    .assert_eq(nobody.refused(7));
}

#[test]
fn what_works_on_the_store_itself_is_refused_elsewhere() {
    let far = Far::new(&[]);
    for typed in [
        "doctor",
        "doctor --fix",
        "backup x.db",
        "restore x.db -y",
        "serve",
        "init",
    ] {
        let told = far.line(typed).run();
        let told = told.refused(2);
        let expected = format!(
            "error: this works on the store itself, which is where {} is",
            far.server.url
        );
        assert!(told.starts_with(&expected), "{typed}: {told}");
    }
}

#[test]
fn versions_that_do_not_fit_are_said() {
    let far = Far::new(&[]);
    let newer = far.line("status").env("FLEET_TEST_API", "2").run();
    expect![[r#"
        error: this `fleet` (0.1.0, API 2) is newer than the server (0.1.0, API 1) understands

        hint: nothing was done; upgrade the server; or use `fleet` 0.1.0 here
    "#]]
    .assert_eq(newer.refused(6));
    let older = far.line("status").env("FLEET_TEST_API", "0").run();
    expect![[r#"
        error: this `fleet` (0.1.0, API 0) is older than the server (0.1.0, API 1) understands

        hint: nothing was done; upgrade `fleet` here to 0.1.0
    "#]]
    .assert_eq(older.refused(6));
}
