// Reads one gzip member from the standard input, which must hold nothing else, and writes what it holds.
package main

import (
	"bufio"
	"compress/gzip"
	"io"
	"log"
	"os"
)

func main() {
	input := bufio.NewReader(os.Stdin)
	member, err := gzip.NewReader(input)
	if err != nil {
		log.Fatal(err)
	}
	member.Multistream(false)
	if _, err := io.Copy(os.Stdout, member); err != nil {
		log.Fatal(err)
	}
	if _, err := input.ReadByte(); err != io.EOF {
		log.Fatal("more than one member: ", err)
	}
}
