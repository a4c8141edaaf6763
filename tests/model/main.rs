//! The engine against a reference model: the verdicts of the design, written a second time without having read the
//! engine, and held against it over generated worlds; and what must be true of the engine in any world.

#[cfg(test)]
mod agree;
#[cfg(test)]
mod bridge;
#[cfg(test)]
mod by_hand;
#[cfg(test)]
mod generate;
#[cfg(test)]
mod invariants;
#[cfg(test)]
mod pairs;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod world;
