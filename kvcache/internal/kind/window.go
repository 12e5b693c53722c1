package kind

// window sees the last tokens, and the first ones where they are attention sinks. The mask says so, too: a block has more.
type window struct{ Base }

func (window) Name() string    { return "window" }
func (window) Fields() []Field { return []Field{{"Window", 1}, {"Sinks", 0}} }

func (window) Sees(n Numbers, position int) (sinks, first int) {
	return n.Sinks, max(position-(n.Window-1), 0)
}

func (window) Most(n Numbers) int { return n.Window - 1 }

func (window) Mask(n Numbers, _ bool) Mask { return Mask{Window: n.Window, Sinks: n.Sinks} }
