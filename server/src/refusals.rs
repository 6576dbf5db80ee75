//! The names of what the command line and the admin API refuse by themselves, beside those of findings and of the rules
//! of keys. Scripts tell refusals apart by them; docs/json/README.md lists each with what to do.

/// `--yes` was not said to what cannot be undone: the name of a verb's noun.
pub(crate) fn wants_yes(noun: Noun) -> &'static str {
    match noun {
        Noun::Db => "db.wants_yes",
        Noun::Events => "events.wants_yes",
        Noun::Keys => "keys.wants_yes",
        Noun::Migrate => "migrate.wants_yes",
        Noun::Replicas => "replicas.wants_yes",
    }
}

/// The first word of a verb that may want `--yes`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Noun {
    Db,
    Events,
    Keys,
    Migrate,
    Replicas,
}

pub(crate) const FLEET_RUNNING: &str = "fleet.running";
pub(crate) const FLEET_UNKNOWN: &str = "fleet.unknown";
pub(crate) const EVENTS_MOVED: &str = "events.moved";
pub(crate) const EVENTS_NOT_OWNER: &str = "events.not_owner";
pub(crate) const FILE_NOT_WRITTEN: &str = "file.not_written";
pub(crate) const FILE_EXISTS: &str = "file.exists";
pub(crate) const KEYS_NOT_WRITTEN: &str = "keys.not_written";
pub(crate) const KEYS_OUTCOME_UNKNOWN: &str = "keys.outcome_unknown";
pub(crate) const KEYS_NO_SUCH_KEY: &str = "keys.no_such_key";
pub(crate) const KEYS_NOT_LOGGED: &str = "keys.not_logged";
pub(crate) const KEYS_OTHER_REPLICA: &str = "keys.other_replica";
pub(crate) const KEYS_PUBLIC_ONLY: &str = "keys.public_only";
pub(crate) const KEYS_SEVERAL: &str = "keys.several_keys";
pub(crate) const KEYS_NO_PRIVATE_HALF: &str = "keys.no_private_half";
pub(crate) const KEYS_RECIPIENT: &str = "keys.bad_recipient";
pub(crate) const MIGRATE_CONFLICT: &str = "migrate.conflict";
pub(crate) const MIGRATE_PLACE: &str = "migrate.unfit_place";
pub(crate) const REPLICA_DENIED: &str = "replica.denied";
pub(crate) const REPLICA_NO_ANSWER: &str = "replica.no_answer";
pub(crate) const REPLICA_NO_SOCKET: &str = "replica.no_socket";
pub(crate) const REPLICA_NOT_NAMED: &str = "replica.not_named";
pub(crate) const REPLICA_NOT_RUNNING: &str = "replica.not_running";
pub(crate) const REPLICA_OTHER_ISSUER: &str = "replica.other_issuer";
pub(crate) const REPLICAS_BEATS: &str = "replicas.beats";
pub(crate) const REPLICAS_NO_REGISTRY: &str = "replicas.no_registry";
pub(crate) const REPLICAS_UNKNOWN: &str = "replicas.unknown";
pub(crate) const TOKEN_AUDIENCE: &str = "token.audience";
pub(crate) const TOKEN_NOT_ALLOWED: &str = "token.not_allowed";
pub(crate) const TOKEN_NOT_OFFERED: &str = "token.not_offered";
pub(crate) const TOKEN_NO_ANSWER: &str = "token.no_answer";
pub(crate) const TOKEN_NO_ENDPOINT: &str = "token.no_endpoint";
pub(crate) const TOKEN_PROOF_REFUSED: &str = "token.proof_refused";
pub(crate) const TOKEN_PROOF_UNREADABLE: &str = "token.proof_unreadable";
pub(crate) const TOKEN_UNSOUND: &str = "token.unsound";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_explained() {
        let page = include_str!("../../docs/json/README.md");
        let nouns = [Noun::Db, Noun::Events, Noun::Keys, Noun::Migrate, Noun::Replicas];
        let names = include_str!("refusals.rs").lines().filter_map(|line| {
            let (_, value) = line.strip_prefix("pub(crate) const ")?.split_once("= \"")?;
            value.strip_suffix("\";")
        });
        let names: Vec<_> = names.chain(nouns.map(wants_yes)).collect();
        assert!(names.len() > 20, "{names:?}");
        for name in names {
            assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/json/README.md");
        }
    }
}
