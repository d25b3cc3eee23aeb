-- The sandbox: what scripts see, and how it is kept from them.
--
-- Called once with the host's functions. A library or the table of globals is a fence: an empty
-- table whose metatable leads to the content and refuses changes, so what one script does to it
-- cannot reach the next one.
local host = ...
local error, type, tostring, pcall, xpcall = error, type, tostring, pcall, xpcall
local next, pairs, rawset, rawget = next, pairs, rawset, rawget
local select, setmetatable, collectgarbage = select, setmetatable, collectgarbage
local tonumber, floor = tonumber, math.floor
local match, gsub, format = string.match, string.gsub, string.format
local concat = table.concat
local loadtext, unpack = host.loadstring, unpack
local READONLY = "Attempt to modify a readonly table"

local content_of = setmetatable({}, { __mode = "k" })

local function refuse()
  error(READONLY, 2)
end

local shown_metatable = setmetatable({}, { __newindex = refuse, __metatable = false })
content_of[shown_metatable] = {}

local function fence(content)
  local table = setmetatable({}, {
    __index = content,
    __newindex = refuse,
    __metatable = shown_metatable,
  })
  content_of[table] = content
  return table
end

local function fail(message)
  error({ err = "ERR " .. message }, 0)
end

-- Names of what has none: numbers in the order in which a run asks for them. Lua's own names are
-- addresses, which are nobody's business.
local NAMELESS = { ["table"] = true, ["function"] = true, userdata = true, thread = true }
local names, named = setmetatable({}, { __mode = "k" }), 0

local function name_of(value, kind)
  if not names[value] then
    named = named + 1
    names[value] = named
  end
  return format("%s: 0x%08x", kind, names[value])
end

local function text_of(value)
  local kind = type(value)
  local text = tostring(value)
  if NAMELESS[kind] and type(text) == "string" and match(text, "^%l+: 0x%x+$") then
    return name_of(value, kind)
  end
  return text
end

-- What was raised: the host raises errors of its own, and tells then what they mean. Lua says of
-- errors where they were raised; a line of this file tells a script nothing, so the one of the
-- script stands there if it is known.
local function translate(message, line, chunk)
  if type(message) == "userdata" then
    local raised = host.raised()
    if raised ~= nil then
      return raised
    end
    message = gsub(match(text_of(message), "^[^\n]*"), "^memory error: ", "")
  end
  if type(message) == "string" and match(message, "^cellar:%d+: ") then
    return gsub(message, "^cellar:%d+: ", line and chunk .. ":" .. line .. ": " or "", 1)
  end
  return message
end

-- Errors of a script that is being ended pass through every protected call.
local function finish(ok, ...)
  if ok then
    return true, ...
  end
  if host.ended() then
    error("the script was ended", 0)
  end
  return false, (translate((...)))
end

local function plain(ok, ...)
  if ok then
    return true, ...
  end
  local message = ...
  if type(message) == "table" and type(rawget(message, "err")) == "string" then
    message = rawget(message, "err")
  end
  return false, message
end

local redis = {
  LOG_DEBUG = 0,
  LOG_VERBOSE = 1,
  LOG_NOTICE = 2,
  LOG_WARNING = 3,
  REPL_NONE = 0,
  REPL_AOF = 1,
  REPL_SLAVE = 2,
  REPL_REPLICA = 2,
  REPL_ALL = 3,
  REDIS_VERSION = host.version,
  REDIS_VERSION_NUM = host.version_number,
  SERVER_NAME = "cellar",
  SERVER_VERSION = host.version,
  SERVER_VERSION_NUM = host.version_number,
}

-- The host adds `call` to each table. With `ONLY_CHECK` as its first argument, `call` only returns
-- whether the command may be run.
local ONLY_CHECK = host.only_check

local function pcall_of(redis)
  return function(...)
    local ok, reply = pcall(redis.call, ...)
    if ok then
      return reply
    end
    reply = translate(reply)
    return type(reply) == "table" and reply or error(reply, 0)
  end
end

local function check_of(redis)
  return function(...)
    return redis.call(ONLY_CHECK, ...)
  end
end

redis.pcall = pcall_of(redis)
redis.acl_check_cmd = check_of(redis)

local function is_text(value)
  return type(value) == "string" or type(value) == "number"
end

local function single_text(...)
  local text = ...
  return select("#", ...) == 1 and type(text) == "string"
end

function redis.error_reply(...)
  if not single_text(...) then
    return { err = "ERR wrong number or type of arguments" }
  end
  return { err = host.error_line((...)) }
end

function redis.status_reply(...)
  if not single_text(...) then
    return { err = "ERR wrong number or type of arguments" }
  end
  return { ok = (...) }
end

function redis.sha1hex(...)
  if select("#", ...) ~= 1 then
    fail("wrong number of arguments")
  end
  return host.sha1hex((...))
end

function redis.log(level, ...)
  if select("#", ...) < 1 then
    fail("redis.log() requires two arguments or more.")
  end
  if type(level) ~= "number" then
    fail("First argument must be a number (log level).")
  end
  if level < 0 or level > 3 then
    fail("Invalid log level.")
  end
  local words = {}
  for index = 1, select("#", ...) do
    local word = select(index, ...)
    if type(word) == "string" or type(word) == "number" then
      words[#words + 1] = tostring(word)
    end
  end
  host.log(level, concat(words, " "))
end

function redis.setresp(...)
  if select("#", ...) ~= 1 then
    fail("redis.setresp() requires one argument.")
  end
  local version = ...
  if version ~= 2 and version ~= 3 then
    fail("RESP version must be 2 or 3.")
  end
  host.setresp(version)
end

function redis.replicate_commands()
  return true
end

function redis.set_repl() end

function redis.breakpoint()
  return false
end

local math_content = {}
for name, value in pairs(math) do
  math_content[name] = value
end
math_content.random = host.random
math_content.randomseed = host.randomseed

local string_content = {}
for name, value in pairs(string) do
  string_content[name] = value
end
for _, name in pairs({ "rep", "upper", "lower", "reverse" }) do
  string_content[name] = host[name]
end

-- What searches: the arguments are texts, and the search does not take too long.
local function check_search(name, text, pattern, added)
  if not is_text(text) or not is_text(pattern) then
    local place, value = 1, text
    if is_text(text) then
      place, value = 2, pattern
    end
    local message = "bad argument #" .. place .. " to '" .. name .. "' (string expected, got "
    error(message .. type(value) .. ")", 3)
  end
  host.check_pattern(text, pattern, name ~= "gmatch" and name ~= "gfind", added)
end

for _, name in pairs({ "match", "gmatch", "gfind" }) do
  local run = string[name]
  string_content[name] = run
    and function(text, pattern, ...)
      check_search(name, text, pattern, 0)
      return run(text, pattern, ...)
    end
end

local find = string.find
function string_content.find(text, wanted, init, plain)
  local is_place = init == nil or type(init) == "number"
  if is_text(text) and is_text(wanted) and is_place and (plain or host.is_plain(wanted)) then
    return host.find_plain(text, wanted, init)
  end
  check_search("find", text, wanted, 0)
  return find(text, wanted, init, plain)
end

-- The bytes that each match may add, and what is called for each: a function in Lua, so that the
-- clock is looked at however long the one takes that it leads to.
function string_content.gsub(text, pattern, by, ...)
  check_search("gsub", text, pattern, is_text(by) and #tostring(by) or 0)
  local replace = by
  if type(by) == "function" then
    function replace(...)
      local text = by(...)
      return text
    end
  elseif type(by) == "table" then
    function replace(key)
      local text = by[key]
      return text
    end
  end
  return gsub(text, pattern, replace, ...)
end

local os_clock = os.clock

local globals = {
  _VERSION = _VERSION,
  assert = assert,
  error = error,
  gcinfo = gcinfo,
  getmetatable = getmetatable,
  ipairs = ipairs,
  rawequal = rawequal,
  rawget = rawget,
  select = select,
  tonumber = tonumber,
  type = type,
  math = fence(math_content),
  string = fence(string_content),
  table = fence(host.tables(host, content_of)),
  os = fence({ clock = os_clock }),
  bit = fence(host.bit),
  cjson = fence(host.cjson),
  cmsgpack = fence(host.cmsgpack),
  struct = fence(host.struct),
  redis = fence(redis),
}
-- Valkey's name of it.
globals.server = globals.redis

function globals.pcall(...)
  return plain(finish(pcall(...)))
end

function globals.xpcall(run, handler)
  return finish(xpcall(run, function(message)
    if host.ended() then
      return message
    end
    return handler((translate(message, host.line())))
  end))
end

function globals.rawset(table, key, value)
  if content_of[table] then
    fail(READONLY)
  end
  return rawset(table, key, value)
end

function globals.setmetatable(table, metatable)
  if content_of[table] then
    fail(READONLY)
  end
  return setmetatable(table, metatable)
end

function globals.next(table, key)
  return next(content_of[table] or table, key)
end

function globals.pairs(table)
  local content = content_of[table]
  if content then
    return function(_, key)
      return next(content, key)
    end
  end
  return pairs(table)
end

function globals.collectgarbage(what)
  if what == "count" then
    return collectgarbage(what)
  elseif what == nil or what == "collect" then
    host.collect()
  end
  return 0
end

function globals.tostring(...)
  if select("#", ...) == 0 then
    error("bad argument #1 to 'tostring' (value expected)", 2)
  end
  return text_of((...))
end

-- Most values that fit on Lua's stack; its own function counts them in 32 bits.
local UNPACKED_MAX = 8000

local function whole(value, default, place)
  if value == nil then
    return default
  end
  local number = tonumber(value)
  if not number then
    local message = "bad argument #" .. place .. " to 'unpack' (number expected, got "
    error(message .. type(value) .. ")", 3)
  end
  return number < 0 and -floor(-number) or floor(number)
end

function globals.unpack(list, first, last)
  if type(list) ~= "table" then
    local message = "bad argument #1 to 'unpack' (table expected, got "
    error(message .. type(list) .. ")", 2)
  end
  first, last = whole(first, 1, 2), whole(last, #list, 3)
  if first > last then
    return
  end
  local is_place = first >= -2147483648 and last <= 2147483647
  if not is_place or last - first >= UNPACKED_MAX then
    error("too many results to unpack", 2)
  end
  if first == 1 and last == #list then
    -- The arguments stand where the last two results have to.
    return unpack(list)
  end
  return unpack(list, first, last)
end

function globals.loadstring(text, name)
  return loadtext(text_of(text), name and text_of(name))
end

function globals.load(read, name)
  local pieces = {}
  repeat
    local piece = read()
    pieces[#pieces + 1] = piece
  until piece == nil or piece == ""
  return loadtext(concat(pieces), name and text_of(name))
end

local strict = {
  __index = function(_, name)
    local message = "Script attempted to access nonexistent global variable '"
    error(message .. text_of(name) .. "'", 2)
  end,
}
setmetatable(globals, strict)

local environment = fence(globals)
globals._G = environment

-- What functions see: the globals of scripts, but for `redis` and what is a script's own; while
-- their library is loaded nothing but the means to register them, and to say something.
local of_functions, redis_of_functions = {}, {}
for name, value in pairs(globals) do
  of_functions[name] = value
end
for name, value in pairs(redis) do
  redis_of_functions[name] = value
end
redis_of_functions.pcall = pcall_of(redis_of_functions)
redis_of_functions.acl_check_cmd = check_of(redis_of_functions)
redis_of_functions.breakpoint = nil
redis_of_functions.replicate_commands = nil
of_functions.redis = fence(redis_of_functions)
of_functions.server = of_functions.redis

local redis_of_loading = { register_function = host.register_function }
for name, value in pairs(redis) do
  if name == "log" or match(name, "^LOG_") or match(name, "^REDIS_") or match(name, "^SERVER_") then
    redis_of_loading[name] = value
  end
end
local of_loading = { redis = fence(setmetatable(redis_of_loading, strict)) }
of_loading.server = of_loading.redis

local seen_by_functions = {
  __index = of_functions,
  __newindex = refuse,
  __metatable = shown_metatable,
}
local environment_of_functions = setmetatable({}, seen_by_functions)
content_of[environment_of_functions] = of_functions
of_functions._G = environment_of_functions
setmetatable(of_functions, strict)
setmetatable(of_loading, strict)

local of_strings = getmetatable("")
of_strings.__index = string_content
of_strings.__metatable = shown_metatable

local function failed(message)
  local line, chunk = host.line()
  message = translate(message, line, chunk)
  if type(message) == "table" then
    local text = rawget(message, "err")
    return {
      err = type(text) == "string" and text or "ERR unknown error",
      line = line,
      ignore_error_stats_update = rawget(message, "ignore_error_stats_update") == true,
    }
  end
  return { err = "ERR " .. text_of(message), line = line }
end

-- The function that is called, and its arguments. They stand here because a closure over them for
-- each call would be garbage.
local called, called_keys, called_args
local function call_function()
  return called(called_keys, called_args)
end

local function run(script, keys, args, is_function)
  if named > 0 then
    names, named = setmetatable({}, { __mode = "k" }), 0
  end
  if is_function then
    called, called_keys, called_args = script, keys, args
    return xpcall(call_function, failed)
  end
  globals.KEYS, globals.ARGV = keys, args
  return xpcall(script, failed)
end

return {
  environment = environment,
  redis = redis,
  content_of = content_of,
  environment_of_functions = environment_of_functions,
  redis_of_functions = redis_of_functions,
  seen_by_functions = seen_by_functions,
  of_functions = of_functions,
  of_loading = of_loading,
  run = run,
}
