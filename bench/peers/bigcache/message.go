package main

import "github.com/mailru/easyjson/jlexer"

// A message as it is posted.
type message struct {
	id      string
	content []byte
}

// Reads a message without copying what needs no unescaping: it is valid as long as the body is.
func parseMessage(body []byte) (message, error) {
	var found message
	lexer := jlexer.Lexer{Data: body}
	lexer.Delim('{')
	for !lexer.IsDelim('}') {
		name := lexer.UnsafeFieldName(false)
		lexer.WantColon()
		switch name {
		case "id":
			found.id = lexer.UnsafeString()
		case "content":
			found.content = lexer.UnsafeBytes()
		default:
			lexer.SkipRecursive()
		}
		lexer.WantComma()
	}
	lexer.Delim('}')
	lexer.Consumed()
	if err := lexer.Error(); err != nil {
		return message{}, err
	}
	if found.id == "" || found.content == nil {
		return message{}, errIncomplete
	}
	return found, nil
}
