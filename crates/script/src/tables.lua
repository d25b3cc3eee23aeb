-- Functions of the library `table` whose work grows with the table.
--
-- Lua's own ones are written in C and look at no clock. They are used where they are done in a
-- moment; anything longer is a loop here, which the clock of the script's limit sees. Called once
-- with the host's functions and the contents of fences.
local host, content_of = ...
local error, type = error, type
local next, rawset, rawget, select = next, rawset, rawget, select
local tonumber, floor = tonumber, math.floor
local insert, remove, sort, getn = table.insert, table.remove, table.sort, table.getn

-- Most places that the functions in C shift.
local SHIFTED_MAX = 1000
-- Most values that the function in C sorts, if the script has little memory: each comparison of
-- strings takes time by their length.
local SORTED_MAX = 128

local function check_table(value, name, level)
  if type(value) ~= "table" then
    local message = "bad argument #1 to '" .. name .. "' (table expected, got "
    error(message .. type(value) .. ")", level or 3)
  end
end

-- The same for a table that is to be changed; a fence is none.
local function check_writable(value, name)
  check_table(value, name, 4)
  if content_of[value] then
    error("Attempt to modify a readonly table", 3)
  end
end

local function check_function(value, name)
  if type(value) ~= "function" then
    local message = "bad argument #2 to '" .. name .. "' (function expected, got "
    error(message .. type(value) .. ")", 3)
  end
end

local function whole(value, place, name)
  local number = tonumber(value)
  if not number then
    local message = "bad argument #" .. place .. " to '" .. name .. "' (number expected, got "
    error(message .. type(value) .. ")", 3)
  end
  return number < 0 and -floor(-number) or floor(number)
end

local tables = { concat = host.concat, getn = getn, setn = table.setn }

function tables.insert(list, ...)
  check_writable(list, "insert")
  local count = select("#", ...)
  local place, value = ...
  if count == 1 then
    rawset(list, #list + 1, place)
    return
  elseif count ~= 2 then
    error("wrong number of arguments to 'insert'", 2)
  end
  place = whole(place, 2, "insert")
  local last = #list
  -- C would cut a place of more bits than its `int` has, and shift up to there.
  if place > last then
    rawset(list, place, value)
    return
  elseif last - place <= SHIFTED_MAX then
    insert(list, place, value)
    return
  end
  for to = last + 1, place + 1, -1 do
    rawset(list, to, rawget(list, to - 1))
  end
  rawset(list, place, value)
end

function tables.remove(list, ...)
  check_writable(list, "remove")
  local place = ...
  local last = #list
  place = place == nil and last or whole(place, 2, "remove")
  if not (place >= 1 and place <= last) then
    return
  elseif last - place <= SHIFTED_MAX then
    return remove(list, place)
  end
  local removed = rawget(list, place)
  for to = place, last - 1 do
    rawset(list, to, rawget(list, to + 1))
  end
  rawset(list, last, nil)
  return removed
end

function tables.maxn(list)
  check_table(list, "maxn")
  local largest = 0
  for key in next, list do
    if type(key) == "number" and key > largest then
      largest = key
    end
  end
  return largest
end

function tables.foreach(list, run)
  check_table(list, "foreach")
  check_function(run, "foreach")
  for key, value in next, list do
    local result = run(key, value)
    if result ~= nil then
      return result
    end
  end
end

function tables.foreachi(list, run)
  check_table(list, "foreachi")
  check_function(run, "foreachi")
  for place = 1, #list do
    local result = run(place, rawget(list, place))
    if result ~= nil then
      return result
    end
  end
end

-- Merges two sorted stretches of `from`, one behind the other, into the same places of `to`.
local function merge(from, to, first, second, last, less)
  local left, right = first, second
  for place = first, last do
    local takes_left = left < second
    if takes_left and right <= last then
      local one, other = from[left], from[right]
      if less then
        takes_left = not less(other, one)
      else
        takes_left = not (other < one)
      end
    end
    if takes_left then
      to[place] = from[left]
      left = left + 1
    else
      to[place] = from[right]
      right = right + 1
    end
  end
end

-- Sorts by merging ever longer stretches; the list changes at the end only.
local function merge_sort(list, count, less)
  local from, to = {}, {}
  for place = 1, count do
    from[place] = rawget(list, place)
  end
  local length = 1
  while length < count do
    for first = 1, count, 2 * length do
      local second, last = first + length, first + 2 * length - 1
      merge(from, to, first, second, last < count and last or count, less)
    end
    from, to = to, from
    length = 2 * length
  end
  for place = 1, count do
    rawset(list, place, from[place])
  end
end

function tables.sort(list, less)
  check_writable(list, "sort")
  if less ~= nil then
    check_function(less, "sort")
  end
  local count = #list
  if count <= SORTED_MAX and host.is_small() then
    sort(list, less)
    return
  end
  merge_sort(list, count, less)
end

return tables
