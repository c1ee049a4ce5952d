//! Einstein's summation convention.

use super::contract::{Label, Named, pair};
use crate::shape::check_rank;
use crate::{Array, Error, Result};
use std::collections::BTreeMap;

const OP: &str = "einsum";
/// Names of the axes that an ellipsis stands for, counted from the last.
const DOTS: Label = 1 << 16;
/// Operands up to which every order of contraction is looked at.
const EXHAUSTIVE: usize = 6;

/// Subscripts against operands: the names of every axis.
struct Equation {
    terms: Vec<Vec<Label>>,
    output: Vec<Label>,
    sizes: BTreeMap<Label, usize>,
}

fn bad(msg: String) -> Error {
    Error::value(OP, msg)
}

/// Names of a term; an ellipsis becomes `dots` names.
fn term(text: &str, dots: usize) -> Result<Vec<Label>> {
    let mut labels = Vec::new();
    let mut rest = text;
    let mut seen = false;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("...") {
            if std::mem::replace(&mut seen, true) {
                return Err(bad(format!("more than one ellipsis in {text:?}")));
            }
            labels.extend((0..dots as Label).rev().map(|i| DOTS + i));
            rest = after;
        } else if c.is_ascii_alphabetic() {
            labels.push(c as Label);
            rest = &rest[1..];
        } else {
            return Err(bad(format!("{c:?} in {text:?} is neither a letter nor part of an ellipsis")));
        }
    }
    Ok(labels)
}

fn parse(subscripts: &str, shapes: &[&[usize]]) -> Result<Equation> {
    let text: String = subscripts.chars().filter(|c| !c.is_whitespace()).collect();
    let (inputs, output) = match text.split_once("->") {
        Some((i, o)) => (i, Some(o)),
        None => (text.as_str(), None),
    };
    let parts: Vec<&str> = inputs.split(',').collect();
    if parts.len() != shapes.len() {
        return Err(bad(format!("{} terms in {subscripts:?} for {} arrays", parts.len(), shapes.len())));
    }
    let (mut terms, mut most) = (Vec::new(), 0);
    let mut sizes: BTreeMap<Label, usize> = BTreeMap::new();
    for (p, shape) in parts.iter().zip(shapes) {
        let letters = p.replace("...", "").len();
        let dots = match (p.contains("..."), shape.len().checked_sub(letters)) {
            (true, Some(d)) => d,
            (false, Some(0)) => 0,
            (_, _) => return Err(bad(format!("{p:?} does not name the {} axes of {shape:?}", shape.len()))),
        };
        most = most.max(dots);
        let labels = term(p, dots)?;
        for (&l, &d) in labels.iter().zip(*shape) {
            match sizes.insert(l, d) {
                Some(before) if before != d && before != 1 && d != 1 => {
                    let msg = format!("an axis of {p:?} has sizes {before} and {d} in {subscripts:?}");
                    return Err(Error::shape(OP, msg));
                }
                Some(before) if before > d || d == 1 => {
                    sizes.insert(l, before);
                }
                Some(_) | None => {}
            }
        }
        terms.push(labels);
    }
    let output: Vec<Label> = match output {
        Some(o) => {
            let labels = term(o, most)?;
            for (i, l) in labels.iter().enumerate() {
                if labels[..i].contains(l) {
                    return Err(bad(format!("a letter of the result {o:?} is repeated")));
                }
                if *l < DOTS && !sizes.contains_key(l) {
                    return Err(bad(format!("a letter of the result {o:?} is in no term")));
                }
            }
            // Dots in the result without dots in any term stand for nothing.
            labels.into_iter().filter(|l| sizes.contains_key(l)).collect()
        }
        None => {
            let once = |l: &Label| terms.iter().flatten().filter(|m| *m == l).count() == 1;
            let dots = (0..most as Label).rev().map(|i| DOTS + i);
            dots.chain(sizes.keys().copied().filter(|l| *l < DOTS && once(l))).collect()
        }
    };
    check_rank(OP, output.len())?;
    Ok(Equation { terms, output, sizes })
}

/// Order of contraction: each entry gives places in the list of operands, which leave it; the result joins at its end.
#[derive(Debug, Clone, PartialEq)]
pub struct EinsumPath {
    /// The steps.
    pub steps: Vec<Vec<usize>>,
    /// Products that it takes.
    pub cost: f64,
    /// Products that one sum over everything would take.
    pub naive_cost: f64,
    /// Elements of the largest array that arises on the way.
    pub largest: f64,
}

impl std::fmt::Display for EinsumPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "steps: {:?}", self.steps)?;
        writeln!(f, "naive cost: {:.3e} products", self.naive_cost)?;
        writeln!(f, "cost: {:.3e} products", self.cost)?;
        write!(f, "largest intermediate: {:.3e} elements", self.largest)
    }
}

/// Operands by number as a bit set, with the names that each set keeps.
struct Search<'a> {
    eq: &'a Equation,
}

impl Search<'_> {
    fn elements(&self, labels: &[Label]) -> f64 {
        labels.iter().map(|l| self.eq.sizes[l] as f64).product()
    }

    /// Names that remain of the operands in `set` once they are one: those that the result or others need.
    fn remaining(&self, terms: &[Vec<Label>], of: &[usize]) -> Vec<Label> {
        let mut labels: Vec<Label> = Vec::new();
        for &i in of {
            labels.extend(terms[i].iter().copied());
        }
        labels.sort_unstable();
        labels.dedup();
        let others = |l: &Label| (0..terms.len()).any(|j| !of.contains(&j) && terms[j].contains(l));
        labels.retain(|l| self.eq.output.contains(l) || others(l));
        labels
    }

    /// Products of contracting two operands, and the names that remain.
    fn step(&self, terms: &[Vec<Label>], i: usize, j: usize) -> (f64, Vec<Label>) {
        let mut all: Vec<Label> = terms[i].iter().chain(&terms[j]).copied().collect();
        all.sort_unstable();
        all.dedup();
        (self.elements(&all), self.remaining(terms, &[i, j]))
    }

    /// The pair whose contraction shrinks memory most, then costs least, again and again.
    fn greedy(&self, mut terms: Vec<Vec<Label>>) -> Found {
        let mut found = Found::default();
        while terms.len() > 1 {
            let mut best: Option<(f64, f64, usize, usize, Vec<Label>)> = None;
            for j in 1..terms.len() {
                for i in 0..j {
                    let (cost, left) = self.step(&terms, i, j);
                    let grown = self.elements(&left) - self.elements(&terms[i]) - self.elements(&terms[j]);
                    let better = best.as_ref().is_none_or(|b| (grown, cost) < (b.0, b.1));
                    if better {
                        best = Some((grown, cost, i, j, left));
                    }
                }
            }
            let Some((_, cost, i, j, left)) = best else { break };
            found.take(self, cost, i, j, &left);
            terms.remove(j);
            terms.remove(i);
            terms.push(left);
        }
        found
    }

    /// The cheapest order.
    fn exhaustive(&self, terms: &[Vec<Label>], so_far: &Found, best: &mut Option<Found>) {
        if best.as_ref().is_some_and(|b| b.cost <= so_far.cost) {
            return;
        }
        if terms.len() < 2 {
            *best = Some(so_far.clone());
            return;
        }
        for j in 1..terms.len() {
            for i in 0..j {
                let (cost, left) = self.step(terms, i, j);
                let mut next = so_far.clone();
                next.take(self, cost, i, j, &left);
                let mut rest: Vec<Vec<Label>> = terms.to_vec();
                rest.remove(j);
                rest.remove(i);
                rest.push(left);
                self.exhaustive(&rest, &next, best);
            }
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Found {
    steps: Vec<Vec<usize>>,
    cost: f64,
    largest: f64,
}

impl Found {
    fn take(&mut self, search: &Search<'_>, cost: f64, i: usize, j: usize, left: &[Label]) {
        self.steps.push(vec![i, j]);
        self.cost += cost;
        self.largest = self.largest.max(search.elements(left));
    }
}

fn path(eq: &Equation) -> EinsumPath {
    let search = Search { eq };
    let distinct: Vec<Vec<Label>> = eq
        .terms
        .iter()
        .map(|t| {
            let mut t = t.clone();
            t.sort_unstable();
            t.dedup();
            t
        })
        .collect();
    let all: Vec<Label> = eq.sizes.keys().copied().collect();
    let naive_cost = search.elements(&all) * eq.terms.len().max(1) as f64;
    let found = if eq.terms.len() < 2 {
        Found { steps: vec![vec![0]], cost: search.elements(&all), largest: search.elements(&eq.output) }
    } else if eq.terms.len() <= EXHAUSTIVE {
        let mut best = None;
        search.exhaustive(&distinct, &Found::default(), &mut best);
        best.unwrap_or_default()
    } else {
        search.greedy(distinct)
    };
    EinsumPath { steps: found.steps, cost: found.cost, naive_cost, largest: found.largest }
}

/// The order in which [`einsum`] contracts: the cheapest of all for up to six arrays, a greedy one for more.
///
/// # Errors
/// As [`einsum`].
pub fn einsum_path(subscripts: &str, arrays: &[Array]) -> Result<EinsumPath> {
    let shapes: Vec<&[usize]> = arrays.iter().map(|a| &a.shape()[..]).collect();
    Ok(path(&parse(subscripts, &shapes)?))
}

/// Sum of products over axes that letters name, as in `"ij,jk->ik"`. A letter that is repeated in a term takes the
/// diagonal; letters that the result lacks are summed over; without a result it has the letters that occur once, in
/// alphabetical order; `...` stands for axes that broadcast. Types are promoted; integers stay integers and wrap.
///
/// # Errors
/// `Value` for subscripts that make no sense or do not fit the arrays' axes, `Shape` for axes of one name and two
/// sizes.
pub fn einsum(subscripts: &str, arrays: &[Array]) -> Result<Array> {
    let shapes: Vec<&[usize]> = arrays.iter().map(|a| &a.shape()[..]).collect();
    let eq = parse(subscripts, &shapes)?;
    let steps = path(&eq).steps;
    let Some(dtype) = arrays.iter().map(Array::dtype).reduce(|a, b| a.promote(b)) else {
        return Err(bad("takes at least one array".into()));
    };
    let mut left: Vec<Named> = eq
        .terms
        .iter()
        .zip(arrays)
        .map(|(t, a)| diagonals(Named { array: a.astype(dtype)?, labels: t.clone() }))
        .collect::<Result<_>>()?;
    for step in steps {
        let &[i, j] = &step[..] else { continue };
        let b = left.remove(j);
        let a = left.remove(i);
        let kept: Vec<Label> = eq.output.iter().chain(left.iter().flat_map(|n| &n.labels)).copied().collect();
        left.push(pair(OP, a, b, &kept)?);
    }
    let last = left.remove(0).keep(&eq.output)?;
    let shape: Vec<usize> = eq.output.iter().map(|l| eq.sizes[l]).collect();
    last.ordered(&eq.output)?.broadcast_to(&shape)
}

/// Takes the diagonal of axes that have one name.
fn diagonals(mut x: Named) -> Result<Named> {
    loop {
        let again = (0..x.labels.len())
            .find_map(|j| x.labels[..j].iter().position(|&l| l == x.labels[j]).map(|i| (i, j)));
        let Some((i, j)) = again else { return Ok(x) };
        let (n, m) = (x.array.shape()[i], x.array.shape()[j]);
        if n != m {
            return Err(Error::shape(OP, format!("a repeated letter for axes of sizes {n} and {m}")));
        }
        let label = x.labels[j];
        let array = x.array.diagonal(0, i as i32, j as i32)?;
        let mut labels: Vec<Label> = x.labels.clone();
        labels.remove(j);
        labels.remove(i);
        labels.push(label);
        x = Named { array, labels };
    }
}
