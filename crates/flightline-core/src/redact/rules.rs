//! The rule set: which words to look for, and how the secret that each announces is made.
//!
//! The rows state facts: the prefix that a vendor gives its tokens, the alphabet and the length that follow. They come
//! from what vendors publish about their tokens and from gitleaks, a public rule set that is kept up to date
//! (`config/gitleaks.toml`, MIT licence, Copyright (c) 2019 Zachary Rice). No expression of it is copied. Lengths are
//! lower bounds here, because a token that was cut still gives most of itself away.
//!
//! To add a vendor, add a row. A row costs nothing until its word is found in a text.

use super::context::{
    self, authorization, azure_secret, bearer, cookie, identified_by, jwt, private_key, sk_key,
    telegram, url,
};
use super::pair;
use super::{Redaction, scan::Hit};

/// A word to look for, and what its presence may mean.
pub(super) struct WordRule {
    /// A word of at least three bytes; in any case (upper, lower) where `fold` says so.
    pub word: &'static str,
    pub fold: bool,
    pub rule: RedactRule,
}

/// The act where a word was found.
pub(super) enum RedactRule {
    /// The word is the beginning of a token.
    Token(TokenPattern),
    /// A shape that says more than the names around it, such as a private key.
    Shape(fn(&Hit<'_>, &mut Vec<Redaction>)),
    /// The word only names a secret: shapes within it are more telling and go first.
    Named(fn(&Hit<'_>, &mut Vec<Redaction>)),
}

/// A token: its prefix is the row's word, and the fields describe the text that follows.
pub(super) struct TokenPattern {
    pub kind: &'static str,
    pub alphabet: fn(u8) -> bool,
    /// The least number of characters that follow.
    pub least: usize,
    /// The largest number of characters that follow: with more, the text is something else.
    pub most: usize,
    /// The prefix is so short that it must begin a word. Others need no boundary: logs hold JSON inside JSON, where
    /// `\n` puts an `n` right before them.
    pub edge: bool,
    /// True when one of the characters must be a digit: the prefix occurs in words, too.
    pub digit: bool,
    /// True when the characters must look random: names of things begin with the prefix, too.
    pub random: bool,
    /// The prefix is part of an address and stays readable.
    pub keep: bool,
}

const fn token(
    kind: &'static str,
    word: &'static str,
    alphabet: fn(u8) -> bool,
    least: usize,
) -> WordRule {
    let token = TokenPattern {
        kind,
        alphabet,
        least,
        most: usize::MAX,
        edge: false,
        digit: false,
        random: false,
        keep: false,
    };
    WordRule {
        word,
        fold: false,
        rule: RedactRule::Token(token),
    }
}

impl WordRule {
    const fn token(self, change: Change) -> Self {
        let RedactRule::Token(mut token) = self.rule else {
            return self;
        };
        match change {
            Change::Edge => token.edge = true,
            Change::Digit => token.digit = true,
            Change::Random => token.random = true,
            Change::Keep => token.keep = true,
            Change::Exact => token.most = token.least,
        }
        Self {
            word: self.word,
            fold: self.fold,
            rule: RedactRule::Token(token),
        }
    }

    const fn edge(self) -> Self {
        self.token(Change::Edge)
    }

    const fn digit(self) -> Self {
        self.token(Change::Digit)
    }

    /// Must look random.
    const fn random(self) -> Self {
        self.token(Change::Random)
    }

    /// Leaves its prefix readable.
    const fn keep(self) -> Self {
        self.token(Change::Keep)
    }

    const fn exact(self) -> Self {
        self.token(Change::Exact)
    }
}

enum Change {
    Edge,
    Digit,
    Random,
    Keep,
    Exact,
}

const fn shape(word: &'static str, rule: fn(&Hit<'_>, &mut Vec<Redaction>)) -> WordRule {
    WordRule {
        word,
        fold: false,
        rule: RedactRule::Shape(rule),
    }
}

const fn named(word: &'static str, rule: fn(&Hit<'_>, &mut Vec<Redaction>)) -> WordRule {
    WordRule {
        word,
        fold: true,
        rule: RedactRule::Named(rule),
    }
}

fn hex(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
}

fn upper(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

fn alnum(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn word(byte: u8) -> bool {
    alnum(byte) || byte == b'_'
}

fn url64(byte: u8) -> bool {
    word(byte) || byte == b'-'
}

fn dotted(byte: u8) -> bool {
    url64(byte) || byte == b'.'
}

/// Base64 with its padding.
fn base64(byte: u8) -> bool {
    alnum(byte) || b"+/=".contains(&byte)
}

/// Base64, where a query has escaped it.
fn query(byte: u8) -> bool {
    base64(byte) || b"%_-".contains(&byte)
}

fn path(byte: u8) -> bool {
    url64(byte) || byte == b'/'
}

fn crypt(byte: u8) -> bool {
    alnum(byte) || b"./$=,+".contains(&byte)
}

/// The rows of the rule set. Of several that fit at one place the first decides.
pub(super) static ROWS: [WordRule; 202] = [
    // Ours, and keys in files.
    shape("fleet_", context::fleet_token),
    shape("BEGIN", private_key),
    token("private-key", "AGE-SECRET-KEY-1", upper, 40),
    token("private-key", "AGE-PLUGIN-", url64, 40),
    token("private-key", "b3BlbnNzaC1rZXktdjE", base64, 40),
    shape("PuTTY-User-Key-File-", context::putty_key),
    shape("Private-Lines:", context::putty_key),
    // Version control, registries of packages, builds.
    token("github-token", "ghp_", word, 16),
    token("github-token", "gho_", word, 16),
    token("github-token", "ghu_", word, 16),
    token("github-token", "ghs_", word, 16),
    token("github-token", "ghr_", word, 16),
    token("github-token", "github_pat_", word, 16),
    token("gitlab-token", "glpat-", dotted, 16),
    token("gitlab-token", "gldt-", dotted, 16).edge(),
    token("gitlab-token", "glrt-", dotted, 16).edge(),
    token("gitlab-token", "glptt-", dotted, 16).edge(),
    token("gitlab-token", "glft-", dotted, 16).edge(),
    token("gitlab-token", "glcbt-", dotted, 16).edge(),
    token("gitlab-token", "glimt-", dotted, 16).edge(),
    token("gitlab-token", "glagent-", dotted, 16)
        .edge()
        .random(),
    token("gitlab-token", "gloas-", dotted, 16).edge(),
    token("gitlab-token", "glsoat-", dotted, 16).edge(),
    token("gitlab-token", "glffct-", dotted, 16).edge(),
    token("gitlab-token", "GR1348941", url64, 16),
    token("gitlab-token", "_gitlab_session=", alnum, 16).keep(),
    token("atlassian-token", "ATATT3", query, 24).edge(),
    token("atlassian-token", "ATCTT3", query, 24).edge(),
    token("atlassian-token", "ATBB", alnum, 28).edge().digit(),
    token("npm-token", "npm_", alnum, 36).exact(),
    token("pypi-token", "pypi-", url64, 32).edge().random(),
    token("rubygems-token", "rubygems_", hex, 40),
    token("clojars-token", "CLOJARS_", alnum, 40),
    token("cargo-token", "cioAAAA", alnum, 24),
    token("cargo-token", "cio", alnum, 32)
        .edge()
        .exact()
        .digit(),
    token("docker-token", "dckr_pat_", url64, 20),
    token("docker-token", "dckr_oat_", url64, 20),
    token("artifactory-token", "AKCp", alnum, 60).edge(),
    token("artifactory-token", "cmVmd", alnum, 55).edge(),
    token("nuget-key", "oy2", alnum, 43).edge().exact(),
    token("circleci-token", "CCIPAT_", word, 20),
    token("sonar-token", "squ_", hex, 40).edge(),
    token("sonar-token", "sqp_", hex, 40).edge(),
    token("sonar-token", "sqa_", hex, 40).edge(),
    token("octopus-key", "API-", upper, 26).edge().digit(),
    token("buildkite-token", "bkua_", hex, 32).edge(),
    token("sourcegraph-token", "sgp_", word, 40).edge().random(),
    token("linear-key", "lin_api_", alnum, 32),
    token("linear-key", "lin_oauth_", alnum, 32),
    token("notion-token", "ntn_", alnum, 40).edge(),
    token("notion-token", "secret_", alnum, 43).edge().digit(),
    token("postman-key", "PMAK-", url64, 50),
    token("figma-token", "figd_", url64, 32),
    // Clouds and platforms.
    token("aws-key", "AKIA", upper, 16).exact(),
    token("aws-key", "ASIA", upper, 16).exact(),
    token("aws-key", "ABIA", upper, 16).edge().exact(),
    token("aws-key", "ACCA", upper, 16).edge().exact(),
    token("aws-key", "ABSK", base64, 100).edge(),
    token("aws-key", "bedrock-api-key-", base64, 24),
    token("aws-signature", "X-Amz-Signature=", hex, 32).keep(),
    token("aws-signature", "X-Amz-Security-Token=", query, 32).keep(),
    token("google-signature", "X-Goog-Signature=", hex, 32).keep(),
    token("google-key", "AIza", url64, 30),
    token("google-token", "ya29.", dotted, 20).edge(),
    token("google-secret", "GOCSPX-", url64, 20),
    token("google-token", "1//0", url64, 30).edge().digit(),
    shape("7Q~", azure_secret),
    shape("8Q~", azure_secret),
    token("azure-signature", "sig=", query, 20).edge().keep(),
    token(
        "azure-signature",
        "SharedAccessSignature sr=",
        |byte| byte.is_ascii_graphic(),
        20,
    )
    .keep(),
    token("digitalocean-token", "dop_v1_", hex, 32),
    token("digitalocean-token", "doo_v1_", hex, 32),
    token("digitalocean-token", "dor_v1_", hex, 32),
    token("heroku-key", "HRKU-", url64, 30),
    token("fly-token", "fo1_", url64, 40).edge(),
    token("fly-token", "fm1r_", base64, 60).edge(),
    token("fly-token", "fm1a_", base64, 60).edge(),
    token("fly-token", "fm2_", base64, 60).edge(),
    token("netlify-token", "nfp_", alnum, 32).edge(),
    token("vercel-token", "vcp_", alnum, 24).edge().digit(),
    token("render-key", "rnd_", alnum, 24).edge().digit(),
    token("railway-token", "railway_", alnum, 32).edge().digit(),
    token("supabase-key", "sbp_", hex, 32).edge(),
    token("supabase-key", "sb_secret_", url64, 16),
    token("alibaba-key", "LTAI", alnum, 12).edge().digit(),
    token("tencent-key", "AKID", alnum, 32).edge().exact(),
    token("cloudflare-key", "v1.0-", url64, 100).edge(),
    token("scaleway-key", "SCW", upper, 17)
        .edge()
        .exact()
        .digit(),
    token("databricks-token", "dapi", hex, 32).edge(),
    token("pulumi-token", "pul-", hex, 32).edge(),
    token("infracost-key", "ico-", alnum, 32).edge().digit(),
    token("doppler-token", "dp.pt.", alnum, 32),
    token("doppler-token", "dp.st.", dotted, 32),
    token("doppler-token", "dp.ct.", alnum, 32),
    token("vault-token", "hvs.", url64, 20),
    token("vault-token", "hvb.", url64, 20),
    token("vault-token", "hvr.", url64, 20),
    token("terraform-token", ".atlasv1.", url64, 40),
    token("openshift-token", "sha256~", url64, 40),
    token("1password-token", "ops_eyJ", base64, 60),
    token(
        "1password-key",
        "A3-",
        |byte| upper(byte) || byte == b'-',
        30,
    )
    .edge()
    .digit(),
    token("tailscale-key", "tskey-", url64, 16),
    token("ngrok-key", "ngrok_", word, 30).edge().random(),
    token(
        "confluent-key",
        "cflt",
        |byte| alnum(byte) || b"+/".contains(&byte),
        56,
    )
    .edge(),
    token("planetscale-token", "pscale_tkn_", dotted, 24),
    token("planetscale-token", "pscale_pw_", dotted, 24),
    token("planetscale-token", "pscale_oauth_", dotted, 24),
    token("prefect-token", "pnu_", alnum, 32).edge(),
    token("harness-token", "pat.", dotted, 60).edge().digit(),
    // Models.
    shape("sk-", sk_key),
    token("huggingface-token", "hf_", alnum, 30).edge(),
    token("huggingface-token", "api_org_", alnum, 30).edge(),
    token("groq-key", "gsk_", alnum, 32).edge(),
    token("xai-key", "xai-", alnum, 40).edge(),
    token("perplexity-key", "pplx-", alnum, 32).edge(),
    token("replicate-token", "r8_", alnum, 32).edge(),
    token("nvidia-key", "nvapi-", url64, 40),
    token("fireworks-key", "fw_", alnum, 20).edge().digit(),
    token("langsmith-key", "lsv2_pt_", word, 30),
    token("langsmith-key", "lsv2_sk_", word, 30),
    token("pinecone-key", "pcsk_", word, 30),
    token("tavily-key", "tvly-", url64, 20).edge().random(),
    // Messages, mail, telephones.
    token("slack-token", "xoxb-", url64, 10),
    token("slack-token", "xoxp-", url64, 10),
    token("slack-token", "xoxa-", url64, 10),
    token("slack-token", "xoxr-", url64, 10),
    token("slack-token", "xoxs-", url64, 10),
    token("slack-token", "xoxo-", url64, 10),
    token("slack-token", "xoxc-", url64, 10),
    token("slack-token", "xoxd-", query, 10),
    token("slack-token", "xoxe-", url64, 10),
    token("slack-token", "xoxe.xox", url64, 10),
    token("slack-token", "xapp-", url64, 16).digit(),
    token("slack-webhook", "hooks.slack.com/services/", path, 20).keep(),
    token("slack-webhook", "hooks.slack.com/workflows/", path, 20).keep(),
    token("slack-webhook", "hooks.slack.com/triggers/", path, 20).keep(),
    token("discord-webhook", "discord.com/api/webhooks/", path, 40).keep(),
    token("discord-webhook", "discordapp.com/api/webhooks/", path, 40).keep(),
    token(
        "teams-webhook",
        ".webhook.office.com/webhookb2/",
        |byte| path(byte) || byte == b'@',
        40,
    )
    .keep(),
    shape(":AA", telegram),
    token("sendgrid-key", "SG.", dotted, 50).edge().digit(),
    token("mailgun-key", "key-", hex, 32).edge().exact(),
    token("sendinblue-key", "xkeysib-", url64, 40),
    token("sendinblue-key", "xsmtpsib-", url64, 40),
    token("resend-key", "re_", word, 24).edge().random(),
    token("mapbox-token", "sk.eyJ", dotted, 40),
    // Money and shops.
    token("stripe-key", "sk_live_", alnum, 10),
    token("stripe-key", "sk_test_", alnum, 10),
    token("stripe-key", "rk_live_", alnum, 10),
    token("stripe-key", "rk_test_", alnum, 10),
    token("stripe-key", "whsec_", base64, 20),
    token("square-token", "sq0atp-", url64, 20),
    token("square-token", "sq0csp-", url64, 20),
    token("square-token", "EAAA", url64, 50).edge().digit(),
    token("paypal-token", "access_token$production$", word, 20),
    token("shopify-token", "shpat_", hex, 24),
    token("shopify-token", "shpca_", hex, 24),
    token("shopify-token", "shppa_", hex, 24),
    token("shopify-token", "shpss_", hex, 24),
    token("shippo-token", "shippo_live_", hex, 32),
    token("shippo-token", "shippo_test_", hex, 32),
    token("flutterwave-key", "FLWSECK_TEST-", alnum, 12),
    token("flutterwave-key", "FLWSECK-", alnum, 24),
    token("duffel-token", "duffel_live_", url64, 30),
    token("duffel-token", "duffel_test_", url64, 30),
    token("easypost-key", "EZAK", alnum, 40).edge(),
    token("easypost-key", "EZTK", alnum, 40).edge(),
    // Figures, logs, errors.
    token("grafana-token", "glsa_", word, 32),
    token("grafana-token", "glc_", base64, 32).edge(),
    token(
        "sentry-token",
        "sntrys_",
        |byte| word(byte) || b"+/=".contains(&byte),
        40,
    ),
    token("sentry-token", "sntryu_", hex, 40),
    token("newrelic-key", "NRAK-", upper, 20),
    token("newrelic-key", "NRII-", url64, 24),
    token("dynatrace-token", "dt0c01.", dotted, 60),
    token("readme-key", "rdme_", alnum, 40),
    token("frameio-token", "fio-u-", url64, 40),
    token("settlemint-token", "sm_pat_", alnum, 16).edge(),
    token("facebook-token", "EAAC", alnum, 80).edge(),
    token("facebook-token", "EAAG", alnum, 80).edge(),
    // Shapes of no single vendor.
    shape("eyJ", jwt),
    token("password-hash", "$2a$", crypt, 50),
    token("password-hash", "$2b$", crypt, 50),
    token("password-hash", "$2y$", crypt, 50),
    token("password-hash", "$6$", crypt, 60),
    token("password-hash", "$argon2", crypt, 40),
    // The words that announce a secret of any shape.
    named("://", url),
    named("bearer", bearer),
    named("authorization", authorization),
    named("cookie", cookie),
    named("identified by", identified_by),
    named("curl", context::command),
    named("login", context::command),
    named("sshpass", context::command),
    named("mysql", context::command),
    named("redis-cli", context::command),
    named("pass", pair::judge),
    named("pwd", pair::judge),
    named("secret", pair::judge),
    named("token", pair::judge),
    named("key", pair::judge),
    named("auth", pair::judge),
    named("cred", pair::judge),
];
