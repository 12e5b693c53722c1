package states

import (
	"cmp"
	"slices"
)

// index has the states of each identity in a radix tree over their tokens (Morrison, "PATRICIA", JACM 1968): what finds, adds or removes one looks
// at each of its tokens once.
type index map[Identity]*node

// node is the states that begin with so many tokens, the same ones. It has no tokens of its own: they are those of any of its states, so that a tree
// has two nodes a state at most, whatever goes.
type node struct {
	depth    int
	first    *state   // of them in the order of tokens and names
	own      []*state // that have no more tokens, by name
	children []*node  // by their next token
}

func (x index) add(s *state) {
	root := x[s.Key.Identity]
	if root == nil {
		root = &node{}
		x[s.Key.Identity] = root
	}
	root.add(s)
}

func (x index) remove(s *state) {
	if root := x[s.Key.Identity]; root != nil {
		if root.remove(s); root.first == nil {
			delete(x, s.Key.Identity)
		}
	}
}

// child is where that is whose next token is that, or would be.
func (n *node) child(token uint32) (int, bool) {
	return slices.BinarySearchFunc(n.children, token, func(c *node, t uint32) int { return cmp.Compare(c.first.Key.Tokens[n.depth], t) })
}

func (n *node) named(name string) (int, bool) {
	return slices.BinarySearchFunc(n.own, name, func(s *state, name string) int { return cmp.Compare(s.Key.Name, name) })
}

// step goes on to the child that the prompt goes on with, and how many tokens it has in common with that; nil: there is none.
func (n *node) step(tokens []uint32) (*node, int) {
	if n.depth == len(tokens) {
		return nil, n.depth
	}
	at, found := n.child(tokens[n.depth])
	if !found {
		return nil, n.depth
	}
	c := n.children[at]
	return c, n.depth + common(c.first.Key.Tokens[n.depth:c.depth], tokens[n.depth:])
}

// common is how many tokens two lists have in common at their beginning.
func common(a, b []uint32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// settle finds the first state again.
func (n *node) settle() {
	switch {
	case len(n.own) > 0:
		n.first = n.own[0]
	case len(n.children) > 0:
		n.first = n.children[0].first
	default:
		n.first = nil
	}
}

func (n *node) add(s *state) {
	var path []*node
	for tokens := s.Key.Tokens; ; {
		path = append(path, n)
		c, same := n.step(tokens)
		if c != nil && same == c.depth {
			n = c
			continue
		}
		if same > n.depth { // the way to the child forks
			at, _ := n.child(tokens[n.depth])
			fork := &node{depth: same, children: []*node{c}, first: c.first}
			n.children[at], n = fork, fork
			path = append(path, n)
		}
		if n.depth < len(tokens) {
			at, _ := n.child(tokens[n.depth])
			leaf := &node{depth: len(tokens), first: s}
			n.children, n = slices.Insert(n.children, at, leaf), leaf
			path = append(path, n)
		}
		break
	}
	at, _ := n.named(s.Key.Name)
	n.own = slices.Insert(n.own, at, s)
	for _, n := range slices.Backward(path) {
		n.settle()
	}
}

func (n *node) remove(s *state) {
	if n.depth == len(s.Key.Tokens) {
		if at, found := n.named(s.Key.Name); found && n.own[at] == s {
			n.own = slices.Delete(n.own, at, at+1)
		}
		n.settle()
		return
	}
	at, found := n.child(s.Key.Tokens[n.depth])
	if !found {
		return
	}
	c := n.children[at]
	if _, same := n.step(s.Key.Tokens); same < c.depth {
		return
	}
	c.remove(s)
	switch {
	case c.first == nil:
		n.children = slices.Delete(n.children, at, at+1)
	case len(c.own) == 0 && len(c.children) == 1: // no fork any more
		n.children[at] = c.children[0]
	}
	n.settle()
}

// has reports whether there is a state of that name and of these tokens.
func (n *node) has(name string, tokens []uint32) bool {
	for n.depth < len(tokens) {
		c, same := n.step(tokens)
		if c == nil || same < c.depth {
			return false
		}
		n = c
	}
	_, found := n.named(name)
	return found
}

// nearest is a state with the most tokens in common with a prompt, and how many: of several the first in order, which is one that has no others if
// there is one. nil: none has the first.
func (n *node) nearest(tokens []uint32) (*state, int) {
	for n != nil {
		c, same := n.step(tokens)
		if c != nil {
			n = c
		}
		if same == 0 {
			break
		}
		if c == nil || same < c.depth {
			return n.first, same
		}
	}
	return nil, 0
}

// nearestWhole is nearest among the states that have no tokens but those in common.
func (n *node) nearestWhole(tokens []uint32) (out *state, most int) {
	for n != nil {
		c, same := n.step(tokens)
		if c == nil || same < c.depth {
			break
		}
		if n = c; len(n.own) > 0 {
			out, most = n.own[0], n.depth
		}
	}
	return out, most
}
