//! Replicas that come and go in good order, and their certificate.

use super::Scenario;
use super::ground::{Ground, Special};
use crate::server::eventually;

const ROLLING: Scenario = Scenario::harmless("rolling restart of two replicas");
const SIGTERM: Scenario = Scenario::harmless("SIGTERM to one of two replicas under load");
const ROTATION: Scenario = Scenario::harmless("five certificate rotations, each with a new CA");

#[test]
fn replicas_and_their_certificates_are_replaced_without_a_failed_call() {
    let mut ground = Ground::start();
    ground.two_replicas();
    // As the printed Deployment does it (maxSurge 0, maxUnavailable 1): one is deleted, and the next only once there
    // is a new one in its place.
    ROLLING.run(&mut ground, |ground, stream| {
        for _ in 0..2 {
            let old = ground.replicas.remove(0);
            ground.service.leave(old.port);
            old.terminate();
            stream.goes_on_for(50);
            let mut new = ground.start_replica(Special::default());
            new.wait_until_ready();
            ground.service.wait_until_routed(new.port);
            ground.replicas.push(new);
            stream.goes_on_for(50);
        }
        assert!(ground.replicas.iter().any(|replica| replica.reviews() > 50), "the new ones answer");
    });

    SIGTERM.run(&mut ground, |ground, stream| {
        // The one that the API server's connection goes to.
        let before: Vec<u64> = ground.replicas.iter().map(super::replica::Replica::reviews).collect();
        stream.goes_on_for(50);
        let busy = (0..2).max_by_key(|&at| ground.replicas[at].reviews() - before[at]).expect("two replicas");
        let old = ground.replicas.remove(busy);
        ground.service.leave(old.port);
        old.terminate();
    });

    ground.two_replicas();
    ROTATION.run(&mut ground, |ground, stream| {
        for _ in 0..5 {
            let old = ground.secret.ca();
            let new = ground.secret.prepare();
            let connections = ground.service.accepted();
            ground.trust(&[&old, &new]);
            // Another CA is another client for the API server, with connections of its own.
            eventually("the API server trusts both", || (ground.service.accepted() > connections).then_some(()));
            let generation = |ground: &Ground| -> Vec<u64> {
                let of = |replica: &super::replica::Replica| replica.statusz()["certificate"]["generation"].as_u64();
                ground.replicas.iter().filter_map(of).collect()
            };
            let before = generation(ground);
            assert_eq!(before.len(), 2);
            ground.secret.publish();
            eventually("both replicas serve the new certificate", || {
                generation(ground).iter().zip(&before).all(|(now, before)| now > before).then_some(())
            });
            let connections = ground.service.accepted();
            ground.trust(&[&new]);
            eventually("the API server trusts the new one only", || {
                (ground.service.accepted() > connections).then_some(())
            });
            stream.goes_on_for(50);
        }
    });
}
