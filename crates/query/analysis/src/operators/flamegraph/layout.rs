//! Places of nodes in the picture: those of one parent beside each other, the widest first.

use super::halves::Halves;
use super::sums::Sums;

/// A node's place.
pub(crate) struct Place {
    pub(crate) node: usize,
    /// The row of the one above it.
    pub(crate) parent: Option<usize>,
    /// From 1 down, from -1 up.
    pub(crate) depth: i64,
    pub(crate) x_start: f64,
}

/// Places of the nodes that are kept, level by level.
pub(crate) fn layout(halves: &Halves, sums: &Sums, is_kept: impl Fn(usize) -> bool) -> Vec<Place> {
    let mut by_width: Vec<usize> = (0..halves.len()).filter(|node| is_kept(*node)).collect();
    by_width.sort_by(|one, other| sums.width(*other).total_cmp(&sums.width(*one)));
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); halves.len()];
    // Both graphs begin at the left.
    let mut roots: Vec<Place> = Vec::new();
    let mut x = [0.0; 2];
    for node in by_width {
        match halves.parent(node) {
            Some(parent) => below.iter_mut().skip(parent).take(1).for_each(|nodes| nodes.push(node)),
            None => {
                let is_up = halves.is_up(node);
                let [down, up] = &mut x;
                let x = if is_up { up } else { down };
                roots.push(Place { node, parent: None, depth: if is_up { -1 } else { 1 }, x_start: *x });
                *x += sums.width(node);
            }
        }
    }
    roots.sort_by(|one, other| {
        one.x_start.total_cmp(&other.x_start).then(halves.is_up(one.node).cmp(&halves.is_up(other.node)))
    });
    let mut places = roots;
    let mut row = 0;
    while let Some(place) = places.get(row) {
        let (mut x, depth, node) = (place.x_start, place.depth, place.node);
        for child in below.get(node).cloned().unwrap_or_default() {
            places.push(Place { node: child, parent: Some(row), depth: depth + depth.signum(), x_start: x });
            x += sums.width(child);
        }
        row += 1;
    }
    places
}
