package rooms

type middle struct{ on ground }

func (m middle) deep() int { return m.on.dig() + top }
