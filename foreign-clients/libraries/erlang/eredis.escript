#!/usr/bin/env escript
%% eredis: commands, pipelines, transactions, scripts.

main(_) ->
    {ok, C} = eredis:start_link(os:getenv("HOST"), list_to_integer(os:getenv("PORT"))),
    Show = fun(What, Value) -> io:format("~s: ~p~n", [What, Value]) end,
    Show("set", eredis:q(C, ["SET", "a", "1", "EX", "60"])),
    Show("incr", eredis:q(C, ["INCRBY", "a", "4"])),
    Show("many", eredis:q(C, ["MGET", "a", "none"])),
    Show("hash", [eredis:q(C, ["HSET", "h", "f", "v"]), eredis:q(C, ["HGETALL", "h"])]),
    Show("pipeline", eredis:qp(C, [["INCR", "n"], ["GET", "n"]])),
    Show("transaction", [eredis:q(C, Q) || Q <- [["MULTI"], ["INCR", "n"], ["EXEC"]]]),
    Show("script", eredis:q(C, ["EVAL", "return ARGV[1]", "1", "k", "v"])),
    Show("unknown", element(1, eredis:q(C, ["NOSUCH"]))).
