//! Settings by name.

use oneseal_coordination::settings::{get, set};
use oneseal_testing::parts::Postgres;

use super::migrated;

#[tokio::test]
async fn a_setting_is_of_its_fleet_and_the_last_one_counts() {
    let Some(server) = Postgres::shared() else { return };
    let (raw, database) = migrated(server).await;
    assert_eq!(get(&database, "prod", "rotation.paused").await.unwrap(), None);
    set(&database, "prod", "rotation.paused", "true", "ann").await.unwrap();
    set(&database, "prod", "rotation.paused", "false", "bob").await.unwrap();
    // Nothing is changed, and nobody is said to have changed it.
    set(&database, "prod", "rotation.paused", "false", "eve").await.unwrap();
    assert_eq!(get(&database, "prod", "rotation.paused").await.unwrap().as_deref(), Some("false"));
    assert_eq!(get(&database, "lab", "rotation.paused").await.unwrap(), None);
    assert_eq!(
        raw.execute("SELECT fleet, name, value, changed_by FROM oneseal.settings"),
        "prod|rotation.paused|false|bob"
    );
}
