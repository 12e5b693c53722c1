package rooms

const top = 1

func look(m middle) int { return m.deep() + m.on.dig() }
