//! The one suite, directly and through PgBouncer in the two modes that keep transactions together.

use std::net::SocketAddr;
use std::sync::Arc;

use oneseal_coordination::FenceToken;
use oneseal_providers::{Entries, PostgresProvider, SecretProvider};
use oneseal_testing::conformance::{Capabilities, ProviderFixture};
use oneseal_testing::parts::{Database, Fate, Pooling, Postgres, Proxy};
use oneseal_testing::{MemoryProvider, Outcome, conformance_suite};

use crate::place::{self, QUICK_POLL};

conformance_suite!(direct, Row::by(Way::Direct));
conformance_suite!(pooled_by_transaction, Row::by(Way::Pooled(Pooling::Transaction)));
conformance_suite!(pooled_by_session, Row::by(Way::Pooled(Pooling::Session)));

#[derive(Clone, Copy)]
enum Way {
    Direct,
    Pooled(Pooling),
}

/// A row in a database of its own, reached by way of a proxy that can cut.
struct Row {
    /// `None` where PostgreSQL or PgBouncer is missing, which the output then says: memory stands in, and proves nothing.
    real: Option<Real>,
    stand_in: MemoryProvider,
}

struct Real {
    database: Database,
    proxy: Proxy,
}

impl Row {
    fn by(way: Way) -> Self {
        Self { real: Real::by(way), stand_in: MemoryProvider::new().journaling() }
    }
}

impl Real {
    fn by(way: Way) -> Option<Self> {
        let server = Postgres::shared()?;
        let address: SocketAddr = match way {
            Way::Direct => server.address(),
            Way::Pooled(mode) => place::pooler(mode)?,
        };
        Some(Self { database: place::migrated(server), proxy: Proxy::start(address) })
    }

    fn provider(&self) -> PostgresProvider {
        place::provider(&self.database.url_at(self.proxy.address())).poll_every(QUICK_POLL)
    }
}

impl ProviderFixture for Row {
    fn capabilities(&self) -> Capabilities {
        Capabilities::writable().of_documents().of_one_entry(Entries::KEYRING).journaling().losing_answers()
    }

    fn provider(&self) -> Arc<dyn SecretProvider> {
        match &self.real {
            Some(real) => Arc::new(real.provider()),
            None => Arc::new(self.stand_in.clone()),
        }
    }

    /// The cut first closes what is open, so that the next COMMIT that comes by is the write's own.
    fn lose_next_answer(&self, outcome: Outcome) {
        let Some(Real { proxy, .. }) = &self.real else { return self.stand_in.lose_next_answer(outcome) };
        proxy.cut();
        proxy.when_client_sends(
            b"COMMIT",
            match outcome {
                Outcome::Dropped => Fate::CutBefore,
                Outcome::Committed => Fate::CutAfter,
            },
        );
    }

    fn supersede(&self, by: &FenceToken) {
        let Some(Real { database, .. }) = &self.real else { return self.stand_in.supersede(by) };
        let FenceToken { fleet, worker, epoch, holder, .. } = by;
        database.execute(&format!(
            "DELETE FROM oneseal.worker_epochs WHERE fleet = '{fleet}' AND worker = '{worker}'; \
             INSERT INTO oneseal.worker_epochs (fleet, worker, epoch, holder) \
             VALUES ('{fleet}', '{worker}', {epoch}, '{holder}')"
        ));
    }
}
