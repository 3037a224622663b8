//! Recognises commands that are hard to undo, and commands that only run others.

use super::{Destructive, base_name};

/// The commands, by what they do. A pattern is a program and the words that follow it: alternatives are separated by `|`, a `*` at the
/// end stands for any ending, `…` for any words between, and a word that begins with `-` is an option that has to be among the
/// arguments.
const RULES: &[(&str, &[&str])] = &[
    (
        "migrate",
        &[
            "rails|rake db:migrate*|db:rollback*|db:drop*|db:reset*|db:setup*|db:schema:load*",
            "prisma migrate deploy|reset|dev",
            "prisma db push",
            "alembic upgrade|downgrade",
            "flask db upgrade|downgrade",
            "manage.py|django-admin migrate|flush",
            "knex migrate:latest|migrate:up|migrate:down|migrate:rollback",
            "sequelize|sequelize-cli db:migrate|db:migrate:undo*|db:drop",
            "typeorm migration:run|migration:revert|schema:drop|schema:sync",
            "drizzle-kit push|migrate",
            "diesel migration run|revert|redo",
            "diesel database reset",
            "sqlx migrate run|revert",
            "sqlx database drop|reset",
            "sea-orm-cli migrate up|down|fresh|refresh|reset",
            "flyway migrate|clean|undo",
            "liquibase update*|rollback*|drop-all|dropAll",
            "goose … up|up-to|up-by-one|down|down-to|redo|reset",
            "dbmate up|migrate|down|rollback|drop",
            "migrate … up|down|drop|goto",
            "artisan migrate|migrate:fresh|migrate:refresh|migrate:reset|migrate:rollback|db:wipe",
            "mix ecto.migrate|ecto.rollback|ecto.reset|ecto.drop",
            "atlas migrate|schema apply",
            "supabase db push|reset",
            "hasura migrate apply",
            "wrangler d1 migrations apply",
            "npm|pnpm|yarn|bun run migrate*|db:migrate*",
            "make|just|task migrate*|db-migrate*",
        ],
    ),
    (
        "deploy",
        &[
            "kubectl|oc apply|delete|replace|drain",
            "kubectl|oc rollout restart|undo|pause|resume",
            "terraform|tofu|terragrunt apply|destroy",
            "pulumi up|destroy",
            "cdk|cdktf deploy|destroy",
            "helm upgrade|install|uninstall|delete|rollback",
            "helmfile apply|sync|destroy",
            "fly|flyctl deploy",
            "vercel --prod",
            "vercel deploy|promote|rollback",
            "netlify|firebase|eb|sam|kamal|copilot deploy",
            "wrangler deploy|publish",
            "wrangler pages deploy",
            "railway up",
            "serverless|sls deploy|remove",
            "gcloud|aws|az … deploy*",
            "argocd app sync|rollback",
            "cap|mina … deploy*",
            "docker|podman push",
            "docker|podman image|manifest|compose push",
            "docker|podman … build --push",
            "docker-compose push",
            "npm|pnpm|yarn|bun run deploy*",
            "pnpm|yarn|bun deploy*",
            "make|just|task|rake|nx … deploy*",
            "deploy|deploy.sh",
        ],
    ),
    (
        "publish",
        &[
            "npm|pnpm|bun|lerna|jsr|deno publish",
            "npm unpublish",
            "yarn publish",
            "yarn npm publish",
            "changeset publish",
            "cargo publish|yank",
            "cargo release --execute",
            "twine upload",
            "poetry|uv|hatch|flit|pdm publish",
            "gem push|yank",
            "gh release create|delete",
            "vsce|ovsx publish",
            "mvn|mvnw … deploy",
            "gradle|gradlew … publish*",
            "dotnet nuget push",
            "nuget push",
            "mix hex.publish",
            "pod trunk push",
            "helm push",
            "npm|pnpm|yarn|bun run publish*",
            "make|just|task publish*",
        ],
    ),
    (
        "drop_database",
        &[
            "dropdb",
            "mysqladmin … drop",
            "redis-cli … flushall|flushdb|FLUSHALL|FLUSHDB",
        ],
    ),
    ("rm_recursive", &["rimraf"]),
];

/// Programs that run the command in their arguments, with their options that take a value.
const WRAPPERS: &[(&str, &str)] = &[
    (
        "sudo",
        "-u -g -h -p -C -r -t -U -D -R -T --user --group --chdir",
    ),
    ("doas", "-u -C"),
    ("env", "-u -C --unset --chdir"),
    ("nohup", ""),
    ("time", "-f -o"),
    ("nice", "-n --adjustment"),
    ("ionice", "-c -n -p"),
    (
        "xargs",
        "-I -n -P -L -d -a -E -s --max-args --max-procs --delimiter --arg-file",
    ),
    ("stdbuf", "-i -o -e"),
    ("timeout", "-s -k --signal --kill-after"),
    ("exec", "-a"),
    ("command", ""),
    ("builtin", ""),
    ("setsid", ""),
    ("unbuffer", ""),
    ("busybox", ""),
    ("caffeinate", "-t -w"),
    ("npx", "-p --package -w --workspace"),
    ("bunx", "-p --package"),
    ("dotenv", "-e -f"),
    ("python", "-W -X"),
    ("python3", "-W -X"),
    ("ruby", "-I -r"),
    ("php", "-d"),
    ("node", "-r --require --import"),
];

/// Programs that run the command after these words.
const RUNNERS: &[&str] = &[
    "bundle exec",
    "uv|poetry|pipenv|pdm|hatch|rye|direnv run|exec",
    "npm|pnpm|yarn exec|dlx|x",
    "bun x",
    "yarn|pnpm prisma|knex|sequelize|typeorm|drizzle-kit|wrangler|vercel|netlify|firebase|serverless|sls|cdk|lerna|changeset|rimraf",
    "cargo sqlx",
    "mise exec|x",
];

/// Options that take a value, without which the words of a command cannot be counted.
const VALUED: &[(&str, &str)] = &[
    (
        "git",
        "-C -c --git-dir --work-tree --namespace --exec-path -o --push-option",
    ),
    (
        "kubectl",
        "-n --namespace --context --kubeconfig -s --server --cluster --user -f --filename -l",
    ),
    ("oc", "-n --namespace --context -f --filename -l"),
    (
        "helm",
        "-n --namespace --kube-context --kubeconfig -f --values --set --version",
    ),
    ("docker", "-H --host -c --context --config -f --file"),
    ("docker-compose", "-f --file -p --project-name"),
    (
        "npm",
        "--prefix -w --workspace -C --tag --access --registry --otp",
    ),
    ("pnpm", "-C --dir -F --filter --tag --access"),
    ("yarn", "--cwd"),
    ("make", "-C -f -j --directory --file"),
    ("just", "-f -d --justfile"),
    (
        "cargo",
        "-p --package --manifest-path --registry --token -Z --config",
    ),
    ("fly", "-a --app -c --config"),
    ("flyctl", "-a --app -c --config"),
    ("vercel", "--cwd -t --token -S --scope"),
    ("prisma", "--schema"),
    ("alembic", "-c -n -x"),
    ("flask", "-A --app"),
    ("sqlx", "-D --database-url --source"),
    ("diesel", "--database-url --migration-dir"),
    ("dbmate", "-u --url -d -e --env"),
    ("supabase", "--workdir"),
    ("gh", "-R --repo"),
    (
        "psql",
        "-c -h -U -p -d -f -v --command --host --dbname --username --port --file --set",
    ),
    ("mysql", "-e -h -u -P -D --execute --host --user"),
    ("mariadb", "-e -h -u -P -D --execute --host --user"),
    (
        "dropdb",
        "-h --host -p --port -U --username --maintenance-db",
    ),
];

const SHELLS: [&str; 7] = ["sh", "bash", "zsh", "dash", "ksh", "ash", "fish"];

const DATABASES: [&str; 8] = [
    "psql",
    "mysql",
    "mariadb",
    "sqlite3",
    "sqlcmd",
    "duckdb",
    "cockroach",
    "clickhouse-client",
];

/// Words of the shell's grammar that stand before a command.
const RESERVED: [&str; 10] = [
    "if", "then", "else", "elif", "do", "while", "until", "!", "{", "}",
];

/// The command without what stands before it: assignments, the shell's own words, and programs that run others.
pub fn without_wrappers<'a, 'b>(mut words: &'a [&'b str]) -> &'a [&'b str] {
    while let Some((first, rest)) = words.split_first() {
        let program = base_name(first);
        if RESERVED.contains(first) || is_assignment(first) {
            words = rest;
        } else if let Some((_, valued)) = WRAPPERS.iter().find(|(name, _)| *name == program) {
            words = after_options(rest, valued);
            // The time limit.
            if program == "timeout" {
                words = words.get(1..).unwrap_or_default();
            }
        } else if let Some(runner) = RUNNERS
            .iter()
            .find(|it| follows(it, program, &mut rest.iter().copied()))
        {
            // The last word of some patterns is the command already.
            let own = usize::from(!runner.starts_with("cargo") && !runner.starts_with("yarn|pnpm"));
            words = after_options(rest.get(own..).unwrap_or_default(), "--package -p");
        } else {
            return words;
        }
    }
    words
}

/// The command line that is an argument of the command, as in `bash -c '…'`.
pub fn script(program: &str, arguments: &[&str]) -> Option<String> {
    if program == "eval" {
        return Some(arguments.join(" "));
    }
    if !is_shell(program) && program != "su" {
        return None;
    }
    let asked = |it: &&str| it.starts_with('-') && !it.starts_with("--") && it.contains('c');
    let long = |it: &&str| *it == "--command";
    let at = arguments.iter().position(|it| asked(it) || long(it))?;
    let script = arguments[at + 1..].iter().find(|it| !it.starts_with('-'));
    script.map(|it| (*it).to_owned())
}

pub fn is_shell(program: &str) -> bool {
    SHELLS.contains(&program)
}

/// Returns true when the program runs a command in a container or on another machine.
pub fn runs_elsewhere(program: &str, arguments: &[&str]) -> bool {
    let says = |words: &[&str]| arguments.iter().take(6).any(|it| words.contains(it));
    match program {
        "ssh" => true,
        "docker" | "podman" | "docker-compose" => says(&["exec", "run"]),
        "kubectl" | "oc" => says(&["exec", "run"]),
        "heroku" => says(&["run"]),
        _ => false,
    }
}

/// Returns the act of the command, if that is hard to undo.
pub fn judge(program: &str, arguments: &[&str], stdin: Option<&str>) -> Option<Destructive> {
    let dry = |it: &&str| match it.strip_prefix("--dry-run") {
        Some("") => true,
        Some(how) => how.starts_with('=') && !matches!(how, "=none" | "=false"),
        None => *it == "--help",
    };
    if arguments.iter().any(dry) {
        return None;
    }
    match program {
        "git" => return git(arguments),
        "rm" => return rm(arguments),
        _ => (),
    }
    if DATABASES.contains(&program) && arguments.iter().copied().chain(stdin).any(drops) {
        return found("drop_database", positionals(program, arguments).take(1));
    }
    let matching = |pattern: &&&str| {
        let mut words = positionals(program, arguments);
        follows(pattern, program, &mut words)
            && options_of(pattern).all(|it| arguments.contains(&it))
    };
    RULES.iter().find_map(|(operation, patterns)| {
        let pattern = patterns.iter().find(matching)?;
        let mut words = positionals(program, arguments);
        follows(pattern, program, &mut words);
        found(operation, words)
    })
}

fn git(arguments: &[&str]) -> Option<Destructive> {
    let mut words = positionals("git", arguments);
    let command = words.next()?;
    let at = arguments.iter().position(|it| *it == command)?;
    let options = &arguments[at + 1..];
    let has = |long: &str, short: char| {
        let before_paths = options.iter().take_while(|it| **it != "--");
        before_paths.into_iter().any(|it| {
            it.strip_prefix(long)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
                || (it.starts_with('-') && !it.starts_with("--") && it.contains(short))
        })
    };
    match command {
        "push" if has("--dry-run", 'n') => None,
        "push" => {
            let mut options = words.clone();
            let forced = has("--force", 'f')
                || has("--force-with-lease", 'f')
                || has("--mirror", 'f')
                || has("--delete", 'd')
                || options.any(|it| it.starts_with(['+', ':']));
            found(if forced { "git_force_push" } else { "git_push" }, words)
        }
        "reset" if options.contains(&"--hard") => found("git_reset_hard", words),
        "clean" if has("--force", 'f') && !has("--dry-run", 'n') => found("git_clean", words),
        _ => None,
    }
}

fn rm(arguments: &[&str]) -> Option<Destructive> {
    let mut options = arguments.iter().take_while(|it| **it != "--");
    let recursive = options.any(|it| {
        *it == "--recursive"
            || (it.starts_with('-') && !it.starts_with("--") && it.contains(['r', 'R']))
    });
    recursive
        .then(|| found("rm_recursive", positionals("rm", arguments)))
        .flatten()
}

fn drops(sql: &str) -> bool {
    let mut words = sql
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|it| !it.is_empty());
    while let Some(word) = words.next() {
        let is = |name: &str| word.eq_ignore_ascii_case(name);
        if (is("drop") || is("truncate")) && words.next().is_some() {
            return true;
        }
    }
    false
}

fn found<'a>(operation: &'static str, words: impl Iterator<Item = &'a str>) -> Option<Destructive> {
    let target: Vec<&str> = words.collect();
    Some(Destructive {
        operation,
        target: (!target.is_empty()).then(|| target.join(" ")),
    })
}

/// The arguments that are neither options nor their values.
fn positionals<'a>(
    program: &str,
    arguments: &'a [&'a str],
) -> impl Iterator<Item = &'a str> + Clone {
    let valued = VALUED.iter().find(|(name, _)| *name == program);
    let valued = valued.map_or("", |(_, options)| options);
    let (mut skip, mut literal) = (false, false);
    arguments.iter().copied().filter(move |it| {
        if literal {
            return true;
        }
        if skip {
            skip = false;
            return false;
        }
        literal = *it == "--";
        skip = is_listed(valued, it);
        !it.starts_with('-') || *it == "-"
    })
}

/// Returns true when the words fit the pattern. The words are used up as far as they do.
fn follows<'a>(pattern: &str, program: &str, words: &mut impl Iterator<Item = &'a str>) -> bool {
    let mut parts = pattern.split(' ').filter(|it| !it.starts_with('-'));
    if !parts
        .next()
        .is_some_and(|names| names.split('|').any(|it| it == program))
    {
        return false;
    }
    while let Some(part) = parts.next() {
        let fits = if part == "…" {
            parts
                .next()
                .is_none_or(|part| words.any(|word| is_one_of(part, word)))
        } else {
            words.next().is_some_and(|word| is_one_of(part, word))
        };
        if !fits {
            return false;
        }
    }
    true
}

fn options_of(pattern: &str) -> impl Iterator<Item = &str> {
    pattern.split(' ').filter(|it| it.starts_with('-'))
}

fn is_one_of(names: &str, word: &str) -> bool {
    names.split('|').any(|name| match name.strip_suffix('*') {
        Some(beginning) => word.starts_with(beginning),
        None => word == name,
    })
}

/// The words behind a wrapper's options, their values and a `--`.
fn after_options<'a, 'b>(mut words: &'a [&'b str], valued: &str) -> &'a [&'b str] {
    while let Some((first, rest)) = words.split_first() {
        if *first == "--" {
            return rest;
        }
        // `python -m alembic`: the module is the command.
        if !first.starts_with('-') || *first == "-" {
            return words;
        }
        words = if is_listed(valued, first) {
            rest.get(1..).unwrap_or_default()
        } else {
            rest
        };
    }
    words
}

fn is_listed(options: &str, word: &str) -> bool {
    options.split(' ').any(|it| it == word)
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else {
        return false;
    };
    let mut letters = name.chars();
    letters
        .next()
        .is_some_and(|it| it.is_ascii_alphabetic() || it == '_')
        && letters.all(|it| it.is_ascii_alphanumeric() || it == '_')
}
