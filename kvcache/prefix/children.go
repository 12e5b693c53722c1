package prefix

// The children of a node, those that begin with a resident block and those that are offloaded, are
// a treap each (Seidel and Aragon, 1996): a search tree by
// label, balanced by the hash of the label, so that a root with a million prompts is
// searched in some twenty steps. It runs through the nodes themselves. Two treaps keep the
// resident children neighbours of each other, however many are offloaded.

// child finds the child in a treap that begins with a label, or the one that has the most
// tokens in common with it, and how many those are. exact says that it is the former.
// The latter is the label's neighbour in their order, whatever the shape of the tree,
// so that equal histories take the same blocks.
func (t *Tree) child(kids *node, tokens []uint32, m mark) (best *node, shared int, exact bool) {
	var before, behind *node
	var beforeShared, behindShared int
	for c := kids; c != nil; {
		first, cm := c.label(0, t.blockSize)
		order, k := compareLabels(tokens, m, first, cm)
		switch {
		case order == 0:
			return c, k, true
		case order < 0:
			behind, behindShared, c = c, k, c.left
		default:
			before, beforeShared, c = c, k, c.right
		}
	}
	if behindShared > beforeShared {
		return behind, behindShared, false
	}
	if beforeShared > 0 {
		return before, beforeShared, false
	}
	return nil, 0, false
}

// addChild links c, whose label no child of n begins with.
func (t *Tree) addChild(n, c *node) {
	c.parent, c.above, c.left, c.right = n, nil, nil, nil
	tokens, m := c.label(0, t.blockSize)
	link := n.treapOf(c)
	for *link != nil && (*link).weight >= c.weight {
		c.above = *link
		first, fm := c.above.label(0, t.blockSize)
		if order, _ := compareLabels(tokens, m, first, fm); order < 0 {
			link = &c.above.left
		} else {
			link = &c.above.right
		}
	}
	// The lighter subtree that stood here is cut in two by the label.
	rest := *link
	*link = c
	less, more := &c.left, &c.right
	lessAbove, moreAbove := c, c
	for rest != nil {
		first, fm := rest.label(0, t.blockSize)
		if order, _ := compareLabels(tokens, m, first, fm); order < 0 {
			*more, rest.above, moreAbove = rest, moreAbove, rest
			more, rest = &rest.left, rest.left
		} else {
			*less, rest.above, lessAbove = rest, lessAbove, rest
			less, rest = &rest.right, rest.right
		}
	}
	*less, *more = nil, nil
}

// treapOf is the treap of n's children that c belongs to.
func (n *node) treapOf(c *node) **node {
	if c.far() {
		return &n.farKids
	}
	return &n.kids
}

// linkOf is the pointer of n's treap that leads to its child c.
func (n *node) linkOf(c *node) **node {
	switch up := c.above; {
	case up == nil:
		return n.treapOf(c)
	case up.left == c:
		return &up.left
	default:
		return &up.right
	}
}

// dropChild unlinks c from n.
func (n *node) dropChild(c *node) {
	link, above := n.linkOf(c), c.above
	left, right := c.left, c.right
	for left != nil && right != nil { // the heavier one goes up
		if left.weight >= right.weight {
			*link, left.above, above = left, above, left
			link, left = &left.right, left.right
		} else {
			*link, right.above, above = right, above, right
			link, right = &right.left, right.left
		}
	}
	if left == nil {
		left = right
	}
	if *link = left; left != nil {
		left.above = above
	}
	c.parent, c.above, c.left, c.right = nil, nil, nil, nil
}

// replaceChild puts c, which begins with the same label, in the place of old.
func (n *node) replaceChild(old, c *node) {
	*n.linkOf(old) = c
	c.parent, c.above, c.left, c.right, c.weight = n, old.above, old.left, old.right, old.weight
	for _, below := range [...]*node{c.left, c.right} {
		if below != nil {
			below.above = c
		}
	}
	old.parent, old.above, old.left, old.right = nil, nil, nil, nil
}

// leftmost is the first in order of the treap below c.
func (c *node) leftmost() *node {
	for c.left != nil {
		c = c.left
	}
	return c
}

// onlyChild is the child of n if there is exactly one.
func (n *node) onlyChild() *node {
	c, other := n.kids, n.farKids
	if c == nil {
		c, other = other, nil
	}
	if c != nil && other == nil && c.left == nil && c.right == nil {
		return c
	}
	return nil
}
