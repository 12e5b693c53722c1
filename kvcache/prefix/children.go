package prefix

// The children of a node are a treap (Seidel and Aragon, 1996): a search tree by
// label, balanced by the hash of the label, so that a root with a million prompts is
// searched in some twenty steps. It runs through the nodes themselves.

// child finds the child of n that begins with a label, or the one that has the most
// tokens in common with it, and how many those are. exact says that it is the former.
func (t *Tree) child(n *node, tokens []uint32, m mark) (best *node, shared int, exact bool) {
	for c := n.kids; c != nil; {
		first, cm := c.label(0, t.blockSize)
		order, k := compareLabels(tokens, m, first, cm)
		if order == 0 {
			return c, k, true
		}
		if k > shared {
			best, shared = c, k
		}
		if order < 0 {
			c = c.left
		} else {
			c = c.right
		}
	}
	return best, shared, false
}

// addChild links c, whose label no child of n begins with.
func (t *Tree) addChild(n, c *node) {
	c.parent, c.left, c.right = n, nil, nil
	tokens, m := c.label(0, t.blockSize)
	link := &n.kids
	for *link != nil && (*link).weight >= c.weight {
		first, fm := (*link).label(0, t.blockSize)
		if order, _ := compareLabels(tokens, m, first, fm); order < 0 {
			link = &(*link).left
		} else {
			link = &(*link).right
		}
	}
	// The lighter subtree that stood here is cut in two by the label.
	rest := *link
	*link = c
	less, more := &c.left, &c.right
	for rest != nil {
		first, fm := rest.label(0, t.blockSize)
		if order, _ := compareLabels(tokens, m, first, fm); order < 0 {
			*more, more, rest = rest, &rest.left, rest.left
		} else {
			*less, less, rest = rest, &rest.right, rest.right
		}
	}
	*less, *more = nil, nil
}

// linkOf is the pointer of n's treap that leads to its child c.
func (t *Tree) linkOf(n, c *node) **node {
	tokens, m := c.label(0, t.blockSize)
	link := &n.kids
	for *link != c {
		first, fm := (*link).label(0, t.blockSize)
		if order, _ := compareLabels(tokens, m, first, fm); order < 0 {
			link = &(*link).left
		} else {
			link = &(*link).right
		}
	}
	return link
}

// dropChild unlinks c from n.
func (t *Tree) dropChild(n, c *node) {
	link := t.linkOf(n, c)
	left, right := c.left, c.right
	for left != nil && right != nil { // the heavier one goes up
		if left.weight >= right.weight {
			*link, link, left = left, &left.right, left.right
		} else {
			*link, link, right = right, &right.left, right.left
		}
	}
	if left == nil {
		left = right
	}
	*link = left
	c.parent, c.left, c.right = nil, nil, nil
}

// replaceChild puts c, which begins with the same label, in the place of old.
func (t *Tree) replaceChild(n, old, c *node) {
	*t.linkOf(n, old) = c
	c.parent, c.left, c.right, c.weight = n, old.left, old.right, old.weight
	old.parent, old.left, old.right = nil, nil, nil
}

// onlyChild is the child of n if there is exactly one.
func (n *node) onlyChild() *node {
	if c := n.kids; c != nil && c.left == nil && c.right == nil {
		return c
	}
	return nil
}
