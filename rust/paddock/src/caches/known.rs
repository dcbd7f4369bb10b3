//! Where programs keep, below a home, what they can fetch or make again.

/// A place, and whose it is.
pub(super) struct Known {
    pub(super) path: &'static str,
    pub(super) whose: &'static str,
}

const fn known(path: &'static str, whose: &'static str) -> Known {
    Known { path, whose }
}

/// All of them; none lies in another.
pub(super) const KNOWN: &[Known] = &[
    known(".bun/install/cache", "bun"),
    known(".bundle/cache", "bundler"),
    known(".cabal/packages", "cabal"),
    // pip, uv, Go's builds, yarn 1, Deno, node-gyp, Playwright and whoever else keeps to
    // the XDG Base Directory Specification.
    known(".cache", "pip, uv, go build and others"),
    known(".cargo/git", "cargo"),
    known(".cargo/registry", "cargo"),
    known(".composer/cache", "composer"),
    known(".gradle/caches", "gradle"),
    known(".gradle/wrapper/dists", "gradle"),
    known(".hex/packages", "hex"),
    known(".ivy2/cache", "ivy, sbt"),
    known(".local/share/pnpm/store", "pnpm"),
    known(".m2/repository", "maven"),
    known(".npm/_cacache", "npm"),
    known(".npm/_npx", "npx"),
    known(".nuget/packages", "nuget"),
    known(".opam/download-cache", "opam"),
    known(".pub-cache", "dart"),
    known(".yarn/berry/cache", "yarn"),
    known("go/pkg/mod", "go"),
];

#[cfg(test)]
mod tests {
    use std::path::{Component, Path};

    use super::*;

    #[test]
    fn each_is_below_the_home_and_none_is_in_another() {
        for (at, one) in KNOWN.iter().enumerate() {
            let path = Path::new(one.path);
            assert!(path.components().all(|c| matches!(c, Component::Normal(_))), "{}", one.path);
            for (other_at, other) in KNOWN.iter().enumerate() {
                assert!(at == other_at || !path.starts_with(other.path), "{}", one.path);
            }
        }
        assert!(KNOWN.is_sorted_by_key(|known| known.path));
    }
}
