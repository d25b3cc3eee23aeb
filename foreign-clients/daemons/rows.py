"""All rows, in the order of the page."""

import languages_of_debian
import logs
import mail
import monitoring
import proxies
import stage
import telephony
import tools
import web

MODULES = (web, mail, telephony, logs, monitoring, proxies, tools, languages_of_debian)
TITLES = tuple(module.TITLE for module in MODULES)
ALL = []
for module in MODULES:
    for found in stage.ROWS:
        if found.run.__module__ == module.__name__:
            found.group = module.TITLE
            ALL.append(found)
