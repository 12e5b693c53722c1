package parts

func Drive() string { return "C:" }
