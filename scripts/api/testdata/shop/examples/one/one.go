package one

func Exported() {}
