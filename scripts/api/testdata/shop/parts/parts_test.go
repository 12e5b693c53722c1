package parts

func Tested() {}
