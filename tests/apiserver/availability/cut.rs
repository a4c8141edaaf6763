//! One replica that is cut off: from the API server, or from those who call it.

use std::thread;
use std::time::Duration;

use super::ground::{Ground, Special};
use super::service::Wire;
use super::{ANY, NONE, SOME, Scenario};
use crate::server::eventually;

const FROM_API_SERVER: Scenario = Scenario {
    name: "the replica that is called is cut off from the API server",
    failed: NONE,
    cautious: SOME,
    away: NONE,
};
/// A live read waits for as long as the call may, and says so in time.
const SILENCE: Scenario = Scenario {
    name: "packets between that replica and the API server vanish for 25 s",
    failed: NONE,
    cautious: SOME,
    away: NONE,
};
/// Each of the 4 callers waits for 10 s until its call fails, for as long as the API server keeps to the dead
/// connection: it asks after 30 s of silence whether anybody is there, and gives up 15 s later. The next connection
/// may go to the same replica, and another 10 s.
const FROM_CLIENTS: Scenario = Scenario {
    name: "the replica that is called is cut off from its callers",
    failed: 1..=4 * 10,
    cautious: ANY,
    away: NONE,
};

#[test]
fn one_replica_is_cut_off() {
    let mut ground = Ground::start();
    let wire = Wire::before(ground.guard.testbed.apiserver.port);
    ground.replicas(vec![Special { api_port: Some(wire.port), ..Special::default() }, Special::default()]);
    // The worst case: the API server's connection goes to the one that is cut off.
    call_the_first(&mut ground);
    FROM_API_SERVER.run(&mut ground, |ground, stream| {
        wire.cut();
        let (cautious, reviews) = (stream.of(super::Fate::Cautious), ground.replicas[0].reviews());
        stream.goes_on_for(1000);
        assert!(stream.of(super::Fate::Cautious) > cautious, "live reads fail");
        assert!(ground.replicas[0].reviews() > reviews + 500, "it goes on answering");
        assert!(ground.replicas[0].ready());
        wire.mend();
        eventually("live reads work again", || {
            let before = stream.of(super::Fate::Cautious);
            stream.goes_on_for(60);
            (stream.of(super::Fate::Cautious) == before).then_some(())
        });
    });

    SILENCE.run(&mut ground, |ground, stream| {
        wire.sever();
        // By then each caller has met a live read or two.
        thread::sleep(Duration::from_secs(25));
        assert!(ground.replicas[0].ready());
        wire.mend();
        stream.goes_on_for(300);
    });

    ground.two_replicas();
    call_the_first(&mut ground);
    FROM_CLIENTS.run(&mut ground, |ground, stream| {
        let port = ground.replicas[0].port;
        ground.service.sever(port, true);
        // Its own node still finds it ready, so it stays one of two for new connections.
        ground.service.prefer(port, false);
        eventually("calls fail", || (stream.of(super::Fate::Failed) > 0).then_some(()));
        let others = ground.replicas[1].reviews();
        stream.goes_on_for(400);
        assert!(ground.replicas[1].reviews() > others + 100, "the other one is asked instead");
        ground.service.sever(port, false);
    });
}

/// Has the API server's next connection go to the first replica.
fn call_the_first(ground: &mut Ground) {
    let port = ground.replicas[0].port;
    ground.service.prefer(port, true);
    // A connection to the other one may be open.
    ground.reconnect();
    let before = ground.replicas[0].reviews();
    let target = serde_json::json!({"spec": {"desiredUpdate": {"image": crate::guard::Site::new().unlisted.image}}});
    eventually("the first replica is called", || {
        ground.guard.dry_run(&target);
        (ground.replicas[0].reviews() > before).then_some(())
    });
}
