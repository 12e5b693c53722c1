package rooms

type ground struct{ depth int }

func (g ground) dig() int { return g.depth }
