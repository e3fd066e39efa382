# escape=`
FROM mcr.microsoft.com/windows/servercore:ltsc2022
RUN dir c:\ `
  && echo
EXPOSE 80 ` 
   443
