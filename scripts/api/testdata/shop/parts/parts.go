package parts

type Wheel struct{ Spokes int }
