//! Every provider of this crate, and the in-memory reference, through the one suite.

#![cfg(all(feature = "file", feature = "inline"))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use common::{kubelet_update, rename_into_place, temp_dir, watched};
use oneseal_coordination::FenceToken;
use oneseal_providers::{BoxFuture, Entries, EnvProvider, InlineProvider, SecretProvider};
use oneseal_testing::conformance::{Capabilities, ProviderFixture};
use oneseal_testing::{MemoryProvider, Outcome, conformance_suite};
use tempfile::TempDir;

conformance_suite!(memory, Memory { provider: MemoryProvider::new(), journals: false });
conformance_suite!(
    memory_with_journal,
    Memory { provider: MemoryProvider::new().journaling(), journals: true }
);
conformance_suite!(memory_read_only, ReadOnlyMemory(MemoryProvider::new()));
conformance_suite!(single_file, Place::single_file());
conformance_suite!(linked_file, Place::linked_file());
conformance_suite!(directory, Place::directory());
conformance_suite!(directory_with_lone_keyring, Place::lone_keyring());
conformance_suite!(volume_written_by_kubelet, KubeletVolume(temp_dir()));
conformance_suite!(flat_directory, FlatDirectory(temp_dir()));
conformance_suite!(env, Variable(Mutex::new(None)));
conformance_suite!(inline, Inline(Mutex::new("to be replaced".to_owned())));

struct Memory {
    provider: MemoryProvider,
    journals: bool,
}

impl ProviderFixture for Memory {
    fn capabilities(&self) -> Capabilities {
        let capabilities = Capabilities::writable().losing_answers();
        if self.journals { capabilities.journaling() } else { capabilities }
    }

    fn provider(&self) -> Arc<dyn SecretProvider> {
        Arc::new(self.provider.clone())
    }

    fn lose_next_answer(&self, outcome: Outcome) {
        self.provider.lose_next_answer(outcome);
    }

    fn supersede(&self, by: &FenceToken) {
        self.provider.supersede(by);
    }
}

struct ReadOnlyMemory(MemoryProvider);

impl ProviderFixture for ReadOnlyMemory {
    fn capabilities(&self) -> Capabilities {
        Capabilities::read_only()
    }

    fn provider(&self) -> Arc<dyn SecretProvider> {
        Arc::new(self.0.clone().read_only())
    }

    fn put(&self, entries: Entries) -> BoxFuture<'_, ()> {
        self.0.set(entries);
        Box::pin(async {})
    }
}

/// A path in a directory of its own, written through the contract.
struct Place {
    path: PathBuf,
    capabilities: Capabilities,
    _dir: TempDir,
}

impl Place {
    fn single_file() -> Self {
        let dir = temp_dir();
        let capabilities = Capabilities::writable().of_one_entry(Entries::CURRENT);
        Self { path: dir.path().join("keyring.json"), capabilities, _dir: dir }
    }

    /// Reached through a link to a directory: it is the target's directory that is written and watched.
    fn linked_file() -> Self {
        let dir = temp_dir();
        std::fs::create_dir(dir.path().join("real")).unwrap();
        std::os::unix::fs::symlink("real", dir.path().join("link")).unwrap();
        let capabilities = Capabilities::writable().of_one_entry(Entries::CURRENT);
        Self { path: dir.path().join("link/key"), capabilities, _dir: dir }
    }

    fn directory() -> Self {
        let dir = temp_dir();
        Self { path: dir.path().to_owned(), capabilities: Capabilities::writable(), _dir: dir }
    }

    fn lone_keyring() -> Self {
        let dir = temp_dir();
        let capabilities = Capabilities::writable().of_one_entry(Entries::KEYRING);
        Self { path: dir.path().to_owned(), capabilities, _dir: dir }
    }
}

impl ProviderFixture for Place {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn provider(&self) -> Arc<dyn SecretProvider> {
        Arc::new(watched(&self.path))
    }
}

/// What kubelet writes and we read, or write on in the same layout.
struct KubeletVolume(TempDir);

impl ProviderFixture for KubeletVolume {
    fn capabilities(&self) -> Capabilities {
        Capabilities::writable()
    }

    fn provider(&self) -> Arc<dyn SecretProvider> {
        Arc::new(watched(self.0.path()))
    }

    fn put(&self, entries: Entries) -> BoxFuture<'_, ()> {
        Box::pin(async move { kubelet_update(self.0.path(), &entries, 0o640) })
    }
}

/// A directory that is only read: its one file is no `keyring.json`.
struct FlatDirectory(TempDir);

impl ProviderFixture for FlatDirectory {
    fn capabilities(&self) -> Capabilities {
        Capabilities::read_only().of_one_entry("current.pem")
    }

    fn provider(&self) -> Arc<dyn SecretProvider> {
        Arc::new(watched(self.0.path()))
    }

    fn put(&self, entries: Entries) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            for (name, value) in entries.iter() {
                rename_into_place(&self.0.path().join(name), value.expose());
            }
        })
    }
}

struct Variable(Mutex<Option<OsString>>);

impl ProviderFixture for Variable {
    fn capabilities(&self) -> Capabilities {
        Capabilities::read_only().read_once().of_one_entry(Entries::CURRENT)
    }

    fn provider(&self) -> Arc<dyn SecretProvider> {
        Arc::new(EnvProvider::captured("SIGNING_KEY", self.0.lock().unwrap().clone()))
    }

    fn put(&self, entries: Entries) -> BoxFuture<'_, ()> {
        *self.0.lock().unwrap() = Some(current(&entries).into());
        Box::pin(async {})
    }
}

struct Inline(Mutex<String>);

impl ProviderFixture for Inline {
    fn capabilities(&self) -> Capabilities {
        Capabilities::read_only().read_once().never_missing().of_one_entry(Entries::CURRENT)
    }

    fn provider(&self) -> Arc<dyn SecretProvider> {
        Arc::new(InlineProvider::new(self.0.lock().unwrap().clone()))
    }

    fn put(&self, entries: Entries) -> BoxFuture<'_, ()> {
        *self.0.lock().unwrap() = current(&entries);
        Box::pin(async {})
    }
}

fn current(entries: &Entries) -> String {
    String::from_utf8(entries.get(Entries::CURRENT).unwrap().expose().to_vec()).unwrap()
}
