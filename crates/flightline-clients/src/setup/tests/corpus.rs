//! Settings files as people have them.

/// JSON files that every client's edit has to cope with.
pub(super) const JSON: &[&str] = &[
    // Nothing, in several ways.
    "",
    " ",
    "\n\n",
    "\u{feff}",
    "{}",
    "{}\n",
    "{ }\r\n",
    "{\n}\n",
    "{\n\n}",
    "{\n  // nothing here yet\n}\n",
    // One line.
    r#"{"model":"opus"}"#,
    r#"{ "model": "opus", "env": { "A": "1" } }"#,
    // Indentation of two, four, and tabs.
    "{\n  \"model\": \"opus\",\n  \"permissions\": {\n    \"allow\": [\"Bash(ls:*)\", \"Read\"]\n  }\n}\n",
    "{\n    \"theme\": \"dark\",\n    \"env\": {\n        \"A\": \"1\"\n    }\n}\n",
    "{\n\t\"theme\": \"dark\",\n\t\"list\": [\n\t\t1,\n\t\t2\n\t]\n}",
    // Line ends of Windows, and a byte order mark.
    "{\r\n  \"theme\": \"dark\",\r\n  \"x\": null\r\n}\r\n",
    "\u{feff}{\r\n\t\"theme\": \"dark\"\r\n}",
    "{\r\n  \"mixed\": 1,\n  \"ends\": 2\r\n}\n",
    // Comments and trailing commas.
    "// before\n{\n  \"a\": 1, // one\n  /* two */ \"b\": 2, // after b\n}\n// behind\n",
    "{\n  \"a\": [1, 2, 3,], // list\n  \"b\": {\"c\": 1,},\n}\n",
    "{\n  \"a\": 1\n  // the last word\n}\n",
    "/* one */{/* two */}/* three */",
    // Other tools' hooks in our events, grouped.
    r#"{
  "hooks": {
    "Stop": [
      { "hooks": [{ "type": "command", "command": "say done" }] }
    ],
    "PreToolUse": [
      {
        "matcher": "Bash",
        "hooks": [
          { "type": "command", "command": "~/bin/guard.sh", "timeout": 5 }, // mine
          { "type": "command", "command": "other hook claude PreToolUse" }
        ]
      },
    ]
  },
  "model": "opus"
}
"#,
    // Other tools' hooks in our events, flat, and the keys in another order.
    r#"{
  "hooks": {
    "stop": [{"command": "./audit.sh", "loop_limit": 10}],
    "preToolUse": [{"command": "./validate.sh", "matcher": "Shell|Read"}],
    "afterFileEdit": [{"command": "./format.sh"}]
  },
  "version": 1
}"#,
    // Empty containers that were there before us.
    "{\n  \"hooks\": {},\n  \"mcpServers\": {},\n  \"mcp\": {}\n}\n",
    "{\n  \"hooks\": {\n    \"Stop\": [],\n    \"SessionStart\": [\n    ],\n    \"stop\": []\n  }\n}\n",
    "{\"version\":1,\"hooks\":{}}",
    // Other servers.
    r#"{
  "mcpServers": {
    "github": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-github"],
      "env": { "GITHUB_TOKEN": "ghp_secret" }
    },
    // the last one
    "time": { "url": "http://localhost:1" }
  },
  "mcp": {
    "other": { "type": "local", "command": ["x", "y"], "enabled": false }
  }
}
"#,
    // Ours by hand, another shape each.
    r#"{
  "hooks": {
    "Stop": [{ "hooks": [{ "type": "command", "command": "fleet hook claude Stop", "async": true }] }],
    "stop": [{ "command": "fleet hook cursor stop" }]
  },
  "mcpServers": {
    "flightline": { "command": "fleet", "args": ["mcp"], "env": { "FLEET_HOME": "/x" } } // by hand
  },
  "mcp": {
    "flightline": { "type": "local", "command": ["fleet", "mcp"], "enabled": false }
  },
}
"#,
    // A status line of one's own, and strings that look like syntax.
    "{\n  \"statusLine\": {\"type\": \"command\", \"command\": \"~/.claude/line.sh\"},\n  \"x\": \"}{ // \\\" /* \\u00e9 é 🚀\"\n}\n",
    // A large file of a client's own making.
    "{\n  \"numStartups\": 412,\n  \"oauthAccount\": {\n    \"emailAddress\": \"ada@example.com\"\n  },\n  \"projects\": {\n    \"/home/ada/p\": {\n      \"hasTrustDialogAccepted\": true,\n      \"mcpServers\": {}\n    }\n  },\n  \"big\": 12345678901234567890,\n  \"small\": 1e-7\n}",
];

pub(super) const TOML: &[&str] = &[
    "",
    "\n",
    "  \n\n",
    "\u{feff}",
    "# only a comment\n",
    "# only a comment",
    "model = \"gpt-5\"\n",
    "model = \"gpt-5\"",
    "model = \"gpt-5\"\r\n",
    "\u{feff}model = \"gpt-5\"\r\n\r\n[features]\r\nhooks = true\r\n",
    "model = \"gpt-5\"\n\n\n",
    "[a]\nb = 1\n# at the end\n",
    "mixed = 1\r\nends = 2\n[x]\r\ny = 3\n",
    "[mcp_servers.github]\ncommand = \"npx\"\nargs = [\"-y\", \"server\"]\n\n[mcp_servers.github.env]\nT = \"1\"\n",
    "[mcp_servers]\n",
    "[mcp_servers]\n\n[profiles.o3]\nmodel = \"o3\"\n",
    "text = \"\"\"\n[mcp_servers.flightline]\ncommand = \"fleet\"\n\"\"\"\n",
    "list = [\n  1, # one\n  2,\n]\n\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = \"command\"\ncommand = \"x\"\n",
    "[projects.\"/home/ada/my project\"]\ntrust_level = \"trusted\"\n",
    "# ours by hand\n[mcp_servers.flightline] # here\ncommand = \"fleet\" # short\nargs = [\n  \"mcp\",\n] # old\nstartup_timeout_sec = 20\n\n[mcp_servers.flightline.env]\nFLEET_HOME = \"/x\"\n\n[tui]\nx = 1\n",
    "[mcp_servers]\nflightline = { command = 'fleet', args = ['mcp'] }\nother.command = \"x\"\n",
    "[mcp_servers]\nflightline.command = \"fleet\"\nflightline.args = []\n",
    "mcp_servers.flightline.command = \"/old/fleet\"\nmcp_servers.flightline.args = [\"mcp\", \"serve\"]\n[z]\n",
    "[mcp_servers.flightline]\ncommand = \"fleet\"",
    "\t[indented]\n\t  x = 1\n",
];

pub(super) const MARKDOWN: &[&str] = &[
    "",
    "\n",
    "# Rules\n",
    "# Rules",
    "# Rules\n\n- one\n- two\n\n\n",
    "# Rules\r\n\r\n- one\r\n",
    "# Rules\r\n\r\n- one",
    "\u{feff}# Rules\n",
    "Text <!-- a comment -->\n\n```sh\nfleet status\n```\n",
    "# Old\n\n<!-- flightline:begin -->\nolder words\n<!-- flightline:end -->\n\n# After\n",
    "<!-- flightline:begin -->\n<!-- flightline:end -->",
];
