package main

import (
	"regexp"
	"strings"
)

var (
	cppClass    = regexp.MustCompile(`^class (\w+) : public (?:NS::)?(?:Object|\w+<\w+(?:, (\w+))?>)$`)
	cppEnum     = regexp.MustCompile(`^_(?:MTL|NS)_(?:ENUM|OPTIONS)\(([\w:]+), (\w+)\)`)
	cppValue    = regexp.MustCompile(`^\s+(\w+) = (\d+),?$`)
	cppStruct   = regexp.MustCompile(`^struct (\w+)$`)
	cppField    = regexp.MustCompile(`^\s+((?:NS::)?U?Integer) (\w+);`)
	cppBlock    = regexp.MustCompile(`^using (\w+) = void \(\^\)\((.*)\);`)
	cppFunction = regexp.MustCompile(`^extern "C" (.*[ *])(MTL\w+)\(\);`)
	cppInline   = regexp.MustCompile(`^_(?:MTL|NS)_INLINE (.*[ *])(?:NS|MTL)::(\w+)(?:<_Class, _Base>)?::\w+\((.*)\)`)
	cppSelector = regexp.MustCompile(`_PRIVATE_SEL\((\w+)\)`)
	cppName     = regexp.MustCompile(`\w+$`)
)

// defined are the facts of a header of metal-cpp. The selector of a method is in its body.
func defined(header, text string) (facts []fact) {
	var class, structure, fields string
	var inline []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \r\n")
		add := func(words ...string) { facts = append(facts, fact{header, strings.Join(words, " ")}) }

		if m := cppInline.FindStringSubmatch(line); m != nil {
			inline = m
		} else if m := cppSelector.FindStringSubmatch(line); m != nil && inline != nil {
			class := inline[2]
			if class == "Referencing" {
				class = "Object"
			}
			var arguments []string
			if inline[3] != "" && m[1] != "alloc" { // which takes the class here
				for argument := range strings.SplitSeq(inline[3], ", ") {
					arguments = append(arguments, cppName.ReplaceAllString(argument, ""))
				}
			}
			facts = append(facts, method(header, class, strings.ReplaceAll(m[1], "_", ":"), inline[1], arguments))
			inline = nil
		} else if m := cppClass.FindStringSubmatch(line); m != nil {
			base := m[2]
			if base == "" {
				base = "Object"
			}
			add("class", m[1], base)
		} else if m := cppEnum.FindStringSubmatch(line); m != nil {
			class = m[2]
			add("enum", class, spelled(m[1]))
		} else if m := cppValue.FindStringSubmatch(line); m != nil {
			add("value", class, m[1], m[2])
		} else if m := cppStruct.FindStringSubmatch(line); m != nil {
			structure, fields = m[1], ""
		} else if m := cppField.FindStringSubmatch(line); m != nil && structure != "" {
			fields += " " + spelled(m[1]) + " " + m[2]
		} else if m := cppBlock.FindStringSubmatch(line); m != nil {
			add("block", m[1], spelled(m[2]))
		} else if m := cppFunction.FindStringSubmatch(line); m != nil {
			add("function", m[2], spelled(m[1]))
		} else if strings.HasPrefix(line, "}") && structure != "" {
			add("struct", structure+fields)
			structure = ""
		}
	}
	return facts
}
