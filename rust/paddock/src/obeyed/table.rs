//! What a host runs or obeys of what lies in a workspace: which names, and who does.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Who obeys it, those first who do so with the least of the person's doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Git,
    Shell,
    Agent,
    Editor,
    Build,
    Container,
    Ci,
}

impl Kind {
    pub(crate) const ALL: [Self; 7] =
        [Self::Git, Self::Shell, Self::Agent, Self::Editor, Self::Build, Self::Container, Self::Ci];

    /// For scripts.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Git => "git",
            Self::Shell => "shell",
            Self::Agent => "agent",
            Self::Editor => "editor",
            Self::Build => "build",
            Self::Container => "container",
            Self::Ci => "ci",
        }
    }

    /// The kind of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Who obeys it, and when.
    pub(crate) fn who(self) -> &'static str {
        match self {
            Self::Git => "git, at its next command",
            Self::Shell => "your shell or what it loads, in that directory",
            Self::Agent => "agents, at their next start",
            Self::Editor => "editors, when they open it",
            Self::Build => "builds, tests and package managers",
            Self::Container => "container tools",
            Self::Ci => "CI, once it is pushed",
        }
    }
}

/// What is obeyed, relative to any directory of a workspace: `*` is any part of one
/// name, `/**` at the end all that lies below. What is in a repository of git's own
/// (`.git`) is [`super::repository`]'s to look at.
pub(crate) const TABLE: &[(Kind, &[&str])] = &[
    (
        Kind::Git,
        &[
            ".gitattributes",
            ".gitmodules",
            // What brings hooks that git then runs.
            ".husky/**",
            ".githooks/**",
            ".pre-commit-config.yaml",
            ".pre-commit-hooks.yaml",
            "lefthook.yml",
            "lefthook.yaml",
            ".lefthook.yml",
            "lefthook-local.yml",
            ".overcommit.yml",
            ".lintstagedrc*",
        ],
    ),
    (
        Kind::Shell,
        &[
            ".envrc",
            ".env",
            ".env.*",
            ".direnv/*",
            ".autoenv",
            ".tool-versions",
            ".nvmrc",
            ".node-version",
            ".python-version",
            ".ruby-version",
            "mise.toml",
            ".mise.toml",
            "mise.local.toml",
            ".mise/**",
            ".config/mise/**",
            "devbox.json",
        ],
    ),
    (
        Kind::Agent,
        &[
            ".paddock.toml",
            "AGENTS.md",
            "AGENTS.override.md",
            "CLAUDE.md",
            "CLAUDE.local.md",
            "GEMINI.md",
            "QWEN.md",
            "CRUSH.md",
            "SKILL.md",
            ".mcp.json",
            "mcp.json",
            ".agents/**",
            ".claude/settings.json",
            ".claude/settings.local.json",
            ".claude/*.md",
            ".claude/agents/**",
            ".claude/commands/**",
            ".claude/hooks/**",
            ".claude/output-styles/**",
            ".claude/plugins/**",
            ".claude/rules/**",
            ".claude/skills/**",
            ".claude-plugin/**",
            ".codex/**",
            "opencode.json",
            "opencode.jsonc",
            ".opencode/**",
            ".cursor/**",
            ".cursorrules",
            ".windsurf/**",
            ".windsurfrules",
            ".gemini/**",
            ".qwen/**",
            ".goose/**",
            ".goosehints",
            ".amp/**",
            ".factory/**",
            ".kiro/**",
            ".junie/**",
            ".roo/**",
            ".clinerules",
            ".clinerules/**",
            ".continue/**",
            ".crush.json",
            "crush.json",
            ".pi/**",
            ".rules",
            ".aider*",
            ".github/copilot-instructions.md",
            ".github/instructions/**",
            ".github/prompts/**",
            ".github/agents/**",
            ".github/chatmodes/**",
        ],
    ),
    (
        Kind::Editor,
        &[
            ".vscode/**",
            "*.code-workspace",
            ".idea/**",
            ".fleet/**",
            ".zed/**",
            ".vim/**",
            ".vimrc",
            ".exrc",
            ".nvimrc",
            ".nvim.lua",
            ".lvimrc",
            ".local.vim",
            ".dir-locals.el",
            ".dir-locals-2.el",
            ".helix/**",
            ".kak/**",
            "*.sublime-project",
            ".gdbinit",
            ".lldbinit",
        ],
    ),
    (
        Kind::Build,
        &[
            "Makefile",
            "makefile",
            "GNUmakefile",
            "*.mk",
            "justfile",
            "Justfile",
            ".justfile",
            "Taskfile.yml",
            "Taskfile.yaml",
            "Rakefile",
            "Gemfile",
            "*.gemspec",
            "package.json",
            ".npmrc",
            ".pnpmfile.cjs",
            "pnpm-workspace.yaml",
            ".yarnrc",
            ".yarnrc.yml",
            ".yarn/plugins/**",
            ".yarn/releases/**",
            "bunfig.toml",
            "deno.json",
            "deno.jsonc",
            "turbo.json",
            "nx.json",
            "babel.config.*",
            ".babelrc*",
            "webpack.config.*",
            "vite.config.*",
            "vitest.config.*",
            "jest.config.*",
            "rollup.config.*",
            "esbuild.config.*",
            "eslint.config.*",
            ".eslintrc*",
            "prettier.config.*",
            ".prettierrc*",
            "postcss.config.*",
            "tailwind.config.*",
            "next.config.*",
            "gulpfile.*",
            "Gruntfile.*",
            "Cargo.toml",
            "build.rs",
            ".cargo/config",
            ".cargo/config.toml",
            "rust-toolchain",
            "rust-toolchain.toml",
            "pyproject.toml",
            "setup.py",
            "setup.cfg",
            "conftest.py",
            "pytest.ini",
            "tox.ini",
            "noxfile.py",
            "tasks.py",
            "dodo.py",
            "fabfile.py",
            "sitecustomize.py",
            "*.pth",
            "uv.toml",
            "pip.conf",
            "requirements*.txt",
            "Pipfile",
            "build.gradle",
            "build.gradle.kts",
            "settings.gradle",
            "settings.gradle.kts",
            "gradle.properties",
            "gradlew",
            "gradlew.bat",
            "gradle/wrapper/**",
            "pom.xml",
            "mvnw",
            ".mvn/**",
            "build.xml",
            "build.sbt",
            "project/*.sbt",
            "CMakeLists.txt",
            "CMakePresets.json",
            "CMakeUserPresets.json",
            "meson.build",
            "configure",
            "configure.ac",
            "SConstruct",
            "BUILD",
            "BUILD.bazel",
            "WORKSPACE",
            "MODULE.bazel",
            ".bazelrc",
            "magefile.go",
            ".golangci.yml",
            "composer.json",
            "mix.exs",
            "Package.swift",
            "Directory.Build.props",
            "Directory.Build.targets",
            "nuget.config",
            "NuGet.Config",
            "global.json",
            "flake.nix",
            "shell.nix",
            "default.nix",
            "Procfile",
            ".bundle/config",
        ],
    ),
    (
        Kind::Container,
        &[
            "Dockerfile",
            "Dockerfile.*",
            "*.Dockerfile",
            "Containerfile",
            "docker-compose*.yml",
            "docker-compose*.yaml",
            "compose*.yml",
            "compose*.yaml",
            "docker-bake.hcl",
            ".devcontainer/**",
            ".devcontainer.json",
            "Vagrantfile",
            "Tiltfile",
            "skaffold.yaml",
        ],
    ),
    (
        Kind::Ci,
        &[
            ".github/workflows/**",
            ".github/actions/**",
            ".github/dependabot.yml",
            "action.yml",
            "action.yaml",
            ".gitlab-ci.yml",
            ".gitlab/**",
            ".circleci/**",
            "Jenkinsfile",
            "Jenkinsfile.*",
            ".ci/**",
            ".travis.yml",
            "appveyor.yml",
            ".appveyor.yml",
            "azure-pipelines*.yml",
            ".azure-pipelines/**",
            ".drone.yml",
            ".drone.star",
            ".woodpecker.yml",
            ".woodpecker.yaml",
            ".woodpecker/**",
            ".buildkite/**",
            ".forgejo/workflows/**",
            ".gitea/workflows/**",
            ".cirrus.yml",
            "bitbucket-pipelines.yml",
            "cloudbuild.yaml",
            "buildspec.yml",
            ".builds/**",
            ".build.yml",
            "renovate.json",
            "CODEOWNERS",
        ],
    ),
];

/// A pattern, taken apart.
struct Pattern {
    kind: Kind,
    /// Names of directories above.
    above: Vec<&'static [u8]>,
    /// The last name, or for all that lies below the last of the directories none.
    last: Option<&'static [u8]>,
}

/// All of them, by that name of each that is a whole one: a workspace has many names.
#[derive(Default)]
struct Patterns {
    plain: HashMap<&'static [u8], Vec<Pattern>>,
    with_star: Vec<Pattern>,
    below: HashMap<&'static [u8], Vec<Pattern>>,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
    let mut patterns = Patterns::default();
    let all = TABLE.iter().flat_map(|(kind, patterns)| patterns.iter().map(|p| (*kind, *p)));
    for (kind, pattern) in all {
        let mut above: Vec<&[u8]> = pattern.split('/').map(str::as_bytes).collect();
        let last = above.pop().filter(|last| *last != b"**");
        let directory = above.last().copied().unwrap_or_default();
        let place = match last {
            None => patterns.below.entry(directory).or_default(),
            Some(last) if last.contains(&b'*') => &mut patterns.with_star,
            Some(last) => patterns.plain.entry(last).or_default(),
        };
        place.push(Pattern { kind, above, last });
    }
    patterns
});

/// Who obeys a file of that name below `directories`, which are those from the
/// workspace down.
pub(super) fn obeyed<T: AsRef<[u8]>>(directories: &[T], name: &[u8]) -> Option<Kind> {
    let plain = PATTERNS.plain.get(name).into_iter().flatten();
    let with_star = PATTERNS.with_star.iter();
    let with_star =
        with_star.filter(|pattern| pattern.last.is_some_and(|last| matches(last, name)));
    let found = plain.chain(with_star).find(|pattern| ends_in(directories, &pattern.above));
    found.map(|pattern| pattern.kind)
}

/// Who obeys all that lies below the last of `directories`.
pub(super) fn obeyed_below<T: AsRef<[u8]>>(directories: &[T]) -> Option<Kind> {
    let mut patterns = PATTERNS.below.get(directories.last()?.as_ref())?.iter();
    patterns.find(|pattern| ends_in(directories, &pattern.above)).map(|pattern| pattern.kind)
}

/// The names that are obeyed at the top of a workspace, where they are no patterns.
pub(super) fn plain_names() -> impl Iterator<Item = (Kind, &'static [u8])> {
    let at_top = PATTERNS.plain.values().flatten().filter(|pattern| pattern.above.is_empty());
    at_top.filter_map(|pattern| Some((pattern.kind, pattern.last?)))
}

fn ends_in<T: AsRef<[u8]>>(directories: &[T], above: &[&[u8]]) -> bool {
    let Some(from) = directories.len().checked_sub(above.len()) else { return false };
    directories[from..].iter().zip(above).all(|(name, wanted)| name.as_ref() == *wanted)
}

/// Whether `name` is of that pattern, which has at most two `*`.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let mut parts = pattern.split(|b| *b == b'*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(mut last) = parts.next() else { return rest.is_empty() };
    for next in parts {
        let middle = last;
        if middle.is_empty() {
            last = next;
            continue;
        }
        let Some(at) = rest.windows(middle.len()).position(|part| part == middle) else {
            return false;
        };
        rest = &rest[at + middle.len()..];
        last = next;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(path: &str) -> Option<Kind> {
        let parts: Vec<&[u8]> = path.split('/').map(str::as_bytes).collect();
        let (name, directories) = parts.split_last().unwrap();
        obeyed(directories, name)
            .or_else(|| (1..=directories.len()).find_map(|n| obeyed_below(&directories[..n])))
    }

    #[test]
    fn what_is_obeyed_is_known_at_any_depth_and_nothing_else() {
        for (path, wanted) in [
            ("Makefile", Some(Kind::Build)),
            ("a/b/rules.mk", Some(Kind::Build)),
            (".cargo/config.toml", Some(Kind::Build)),
            ("a/.cargo/config.toml", Some(Kind::Build)),
            ("config.toml", None),
            (".github/workflows/a.yml", Some(Kind::Ci)),
            (".github/workflows/deep/a.yml", Some(Kind::Ci)),
            (".github/a.yml", None),
            (".vscode/tasks.json", Some(Kind::Editor)),
            (".vscode", None),
            (".aider.conf.yml", Some(Kind::Agent)),
            (".claude/settings.json", Some(Kind::Agent)),
            (".claude/worktrees/x/src/main.rs", None),
            (".claude/worktrees/x/Makefile", Some(Kind::Build)),
            ("docker-compose.prod.yaml", Some(Kind::Container)),
            (".env.local", Some(Kind::Shell)),
            (".environment", None),
            ("src/main.rs", None),
            ("xMakefile", None),
        ] {
            assert_eq!(kind(path), wanted, "{path}");
        }
    }

    #[test]
    fn no_pattern_is_there_twice_and_each_is_one() {
        let mut seen = std::collections::HashSet::new();
        for (_, patterns) in TABLE {
            for pattern in *patterns {
                assert!(seen.insert(*pattern), "{pattern}");
                let parts: Vec<&str> = pattern.split('/').collect();
                let (last, above) = parts.split_last().unwrap();
                assert!(above.iter().all(|part| !part.contains('*')), "{pattern}");
                assert!(*last == "**" || !last.contains("**"), "{pattern}");
                assert!(last.matches('*').count() <= 2 && *last != "*" || above.len() == 1);
            }
        }
        assert!(plain_names().count() > 100);
        assert!(Kind::ALL.iter().all(|kind| Kind::named(kind.name()) == Some(*kind)));
        assert!(Kind::ALL.windows(2).all(|pair| pair[0] < pair[1]));
    }

    proptest::proptest! {
        #[test]
        fn any_names_are_obeyed_or_not(names: Vec<Vec<u8>>, name: Vec<u8>) {
            let _ = (obeyed(&names, &name), obeyed_below(&names));
        }
    }
}
